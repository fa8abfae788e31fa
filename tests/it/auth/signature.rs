//! What a signature covers: body, secret, time.

use super::{assert_unauthorized, valid};
use common::signature::{Signed, sign};
use tests::{ApiKey, EVENTS, World, now};

#[tokio::test]
async fn rejects_another_body_secret_or_time_than_was_signed() {
    let world = World::shared().await;
    let http = world.http();
    let request = world.key.events(valid());

    let respaced = [valid().as_slice(), b" "].concat();
    assert_unauthorized(&http.send(&request.clone().with_body(respaced)).await, "one space more");
    assert_unauthorized(&http.send(&request.clone().with_body("")).await, "no body");

    let stranger = ApiKey { secret: "sk_somebody_elses".to_owned(), ..world.key.clone() };
    assert_unauthorized(&http.send(&stranger.events(valid())).await, "another secret");

    let right = request.header("x-connect-signature");
    let (t, mac) = right.split_once(",v1=").expect("t=..,v1=..");
    let later: i64 = t[2..].parse::<i64>().expect("a number") + 1;
    let moved = request.clone().replacing("x-connect-signature", format!("t={later},v1={mac}"));
    assert_unauthorized(&http.send(&moved).await, "another time");
    let padded = request.clone().replacing("x-connect-signature", format!("t=0{},v1={mac}", &t[2..]));
    assert_unauthorized(&http.send(&padded).await, "the time in another form");

    assert_eq!(http.send(&request).await.status, 200, "as it was signed");
}

#[tokio::test]
async fn rejects_a_signature_of_the_records_routes() {
    let world = World::shared().await;
    let body = valid();
    let v2 = world.key.records("POST", EVENTS, body.clone());
    assert_unauthorized(&world.http().send(&v2).await, "v2 over the events route");
    // The MAC of v1 under the name of v2, and the other way round.
    let v1 = world.key.events(body);
    let renamed = v1.header("x-connect-signature").replace("v1=", "v2=");
    assert_unauthorized(
        &world.http().send(&v1.replacing("x-connect-signature", renamed)).await,
        "v1 named v2",
    );
    let renamed = v2.header("x-connect-signature").replace("v2=", "v1=");
    assert_unauthorized(
        &world.http().send(&v2.replacing("x-connect-signature", renamed)).await,
        "v2 named v1",
    );
}

#[tokio::test]
async fn accepts_timestamps_up_to_five_minutes_old_or_ahead() {
    let world = World::shared().await;
    let http = world.http();
    assert_unauthorized(&http.send(&world.key.events_at(now() - 301, valid())).await, "too old");
    assert_unauthorized(&http.send(&world.key.events_at(now() + 310, valid())).await, "too far ahead");
    assert_unauthorized(&http.send(&world.key.events_at(0, valid())).await, "of 1970");
    assert_unauthorized(&http.send(&world.key.events_at(now() * 1000, valid())).await, "in milliseconds");
    // Less than 300 s, because time passes while the request is under way.
    assert_eq!(http.send(&world.key.events_at(now() - 295, valid())).await.status, 200);
    assert_eq!(http.send(&world.key.events_at(now() + 300, valid())).await.status, 200);
}

#[tokio::test]
async fn rejects_an_unknown_key_whatever_it_signs_with() {
    let world = World::shared().await;
    for secret in ["", "sk_guess", world.key.secret.as_str()] {
        let unknown =
            ApiKey { prefix: "ck_unknown".to_owned(), secret: secret.to_owned(), ..world.key.clone() };
        assert_unauthorized(&world.http().send(&unknown.events(valid())).await, secret);
    }
    let body = valid();
    let header = sign(world.key.prefix.as_bytes(), now(), Signed::Body(&body));
    let by_prefix = world.key.events(body).replacing("x-connect-signature", header);
    assert_unauthorized(&world.http().send(&by_prefix).await, "signed with the visible prefix");
}
