//! The signature vectors against the running route.

use serde_json::Value;
use tests::{ApiKey, World, text};

/// A valid `v1` vector with a new signature: with this key, and as far from now as the vector is from its clock.
fn signed_anew(key: &ApiKey, case: &Value, count: i64) -> tests::HttpRequest {
    let (header, body) = (text(&case["header"]), text(&case["body"]));
    let signed_at: i64 = header[2..].split(',').next().and_then(|t| t.parse().ok()).expect("t=<seconds>,..");
    let age = case["now"].as_i64().expect("a number") - signed_at;
    // The clock goes on while the request is under way, and no two may be the same signature.
    let age = age.clamp(-250, 250) + count;
    let request = key.events_at(tests::now() - age, body.to_owned());
    if header.chars().any(|c| c.is_ascii_uppercase()) {
        let (t, mac) = request
            .header("x-connect-signature")
            .split_once(",v1=")
            .map(|(t, mac)| (t.to_owned(), mac.to_uppercase()))
            .expect("v1");
        return request.replacing("x-connect-signature", format!("{t},v1={mac}"));
    }
    request
}

#[tokio::test]
async fn every_valid_form_of_a_v1_signature_passes_authentication() {
    let world = World::shared().await;
    let vectors: Value = serde_json::from_str(include_str!("../vectors/signatures.json")).expect("vectors");
    let cases = vectors["cases"].as_array().expect("cases");
    let valid = cases.iter().filter(|case| case["route"] == "v1" && case["valid"] == true);
    let mut count = 0;
    for case in valid {
        count += 1;
        let response = world.http().send(&signed_anew(&world.key, case, count)).await;
        // None of the bodies is a valid batch, so what passes is refused for its body.
        let message = response.assert_error(400, "invalid_request");
        assert!(!message.is_empty(), "{}", case["why"]);
    }
    assert!(count >= 6, "{count} vectors");
}
