//! Malformed headers. `records/credentials.rs` has those that are missing or repeated.

use super::{assert_unauthorized, valid};
use tests::World;

#[tokio::test]
async fn rejects_a_malformed_key_or_tenant() {
    let world = World::shared().await;
    let unreadable: &[(&str, &[u8])] = &[
        ("x-connect-key", b""),
        ("x-connect-key", b"no such key"),
        ("x-connect-key", b"ck_\xff\xfe"),
        ("x-connect-key", "clé".as_bytes()),
        ("x-connect-key", &[b'k'; 5_000]),
        ("x-connect-key", b"ck_' OR '1'='1"),
        ("x-connect-tenant", b""),
        ("x-connect-tenant", b"acme\xff"),
    ];
    for (header, value) in unreadable {
        let request = world.key.events(valid()).replacing(header, value);
        let why = format!("{header}: {}", String::from_utf8_lossy(value));
        assert_unauthorized(&world.http().send(&request).await, &why);
    }
}

#[tokio::test]
async fn rejects_a_malformed_signature() {
    let world = World::shared().await;
    let request = world.key.events(valid());
    let right = request.header("x-connect-signature");
    let (t, mac) = right.split_once(",v1=").expect("t=..,v1=..");
    let malformed = [
        String::new(),
        format!("v1={mac}"),
        format!("{t},"),
        t.to_owned(),
        format!("v1={mac},{t}"),
        format!("{t},v1={mac},v1={mac}"),
        format!("{t}, v1={mac}"),
        format!("{t};v1={mac}"),
        format!("{t},v1={}", &mac[..62]),
        format!("{t},v1={mac}00"),
        format!("{t},v1={}zz", &mac[..62]),
        format!("{t},v3={mac}"),
        format!("{t},V1={mac}"),
        format!("{},v1={mac}", t.replace("t=", "T=")),
        format!("{},v1={mac}", t.replace("t=", "t=+")),
        format!("{},v1={mac}", t.replace("t=", "t=-")),
        format!("t=now,v1={mac}"),
        format!("t=,v1={mac}"),
        format!("t=0{},v1={mac}", &t[2..]),
        format!("{t}.0,v1={mac}"),
        format!("t=99999999999999999999,v1={mac}"),
        format!("sha256={mac}"),
    ];
    for signature in malformed {
        let broken = request.clone().replacing("x-connect-signature", &signature);
        assert_unauthorized(&world.http().send(&broken).await, &signature);
    }
    // None of them has used the signature up.
    assert_eq!(world.http().send(&request).await.status, 200);
}

#[tokio::test]
async fn all_failures_get_the_same_response() {
    let world = World::shared().await;
    let http = world.http();
    let request = world.key.events(valid());
    let unknown = request.clone().replacing("x-connect-key", "ck_unknown");
    let failures = [
        http.send(&request.clone().without("x-connect-key")).await,
        http.send(&unknown).await,
        http.send(&world.key.events_at(1, valid())).await,
        http.send(&request.clone().with_body("{}")).await,
    ];
    for failure in &failures {
        assert_unauthorized(failure, "one of them");
        assert_eq!(failure.body, failures[0].body);
        let names = |response: &tests::HttpResponse| response.headers.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(failure), names(&failures[0]));
    }
}
