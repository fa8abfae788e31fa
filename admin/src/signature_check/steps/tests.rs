use super::*;
use common::model::TenantId;
use common::signature::{Signed, sign};
use uuid::Uuid;

const NOW: i64 = 1_767_225_600;
const SECRET: &str = "cs_secret";
const BODY: &str = "{\"a\": 1,\n\"b\": \"é\"}";
const EVENTS: &str = "/api/v1/crm/connect/events";
const CLIENTS: &str = "/api/v1/crm/connect/clients?email=a";

fn at() -> DateTime<Utc> {
    DateTime::from_timestamp(NOW, 0).unwrap()
}

fn key() -> CheckedKey {
    CheckedKey {
        is_revoked: false,
        expires_at: None,
        secret: Some(Secret::new(SECRET.to_owned())),
        old_secret: Some((Secret::new("cs_old".to_owned()), at())),
    }
}

fn request(signature: &str) -> CheckedRequest {
    CheckedRequest {
        key: "ck_1".to_owned(),
        method: "POST".to_owned(),
        target: EVENTS.to_owned(),
        timestamp: String::new(),
        signature: signature.to_owned(),
        body: BODY.to_owned(),
    }
}

fn refused(body: &str) -> RefusedRequest {
    RefusedRequest {
        tenant: TenantId(Uuid::nil()),
        at: at(),
        method: "POST".to_owned(),
        route: EVENTS.to_owned(),
        status: 401,
        reason: "mismatch".to_owned(),
        detail: None,
        key_prefix: "ck_1".to_owned(),
        request_id: Uuid::nil(),
        signed_at: Some(NOW),
        body_sha256: Some(sha256(body)),
        body_bytes: 7,
        dry_run: false,
    }
}

fn signed(secret: &str, body: &str) -> String {
    sign(secret.as_bytes(), NOW, Signed::Body(body.as_bytes()))
}

/// The name and text of the first step that fails.
fn failure(key: &CheckedKey, request: &CheckedRequest, refused: Option<&RefusedRequest>) -> (&'static str, String) {
    let report = report(Some(key), request, refused, at());
    report.first_failure().map_or(("none", String::new()), |step| (step.name, step.text.clone()))
}

#[track_caller]
fn assert_failure(request: &CheckedRequest, name: &str, text: &str) {
    let (failed, told) = failure(&key(), request, None);
    assert_eq!(failed, name, "{told}");
    assert!(told.contains(text), "{told}");
}

#[test]
fn a_right_signature_passes_each_step() {
    let report = report(Some(&key()), &request(&signed(SECRET, BODY)), Some(&refused(BODY)), at());
    assert!(report.steps.iter().all(|step| step.verdict == Verdict::Passed), "{:?}", report.steps);
    assert_eq!(report.to_sign, format!("{NOW}.{BODY}"));
}

#[test]
fn the_key_comes_first() {
    let request = request("t=1,v1=x");
    assert_eq!(report(None, &request, None, at()).first_failure().unwrap().name, "Key");
    let revoked = CheckedKey { is_revoked: true, ..key() };
    assert!(failure(&revoked, &request, None).1.contains("revoked"));
    let expired = CheckedKey { expires_at: Some(at()), ..key() };
    assert!(failure(&expired, &request, None).1.contains("expired"));
}

#[test]
fn form_scheme_and_timestamp_are_told_apart() {
    let right = signed(SECRET, BODY);
    assert_failure(&request(&right.replace("t=", "T=")), "Form of the signature", "does not begin with t=");
    let short = "malformed: the MAC does not have exactly 64 hex digits. Its form";
    assert_failure(&request(&right[..right.len() - 2]), "Form of the signature", short);
    assert_failure(&request(&right.replace("v1=", "v2=")), "Scheme", "v2 was sent");
    let old = sign(SECRET.as_bytes(), NOW - 400, Signed::Body(BODY.as_bytes()));
    assert_failure(&request(&old), "Timestamp", "400 s behind");
    let millis = sign(SECRET.as_bytes(), NOW * 1_000, Signed::Body(BODY.as_bytes()));
    assert_failure(&request(&millis), "Timestamp", "milliseconds");
    let alone = right.split_once("v1=").unwrap().1;
    assert_failure(&request(alone), "Timestamp", "There is no t");
}

#[test]
fn a_mac_in_base64_is_recognized_also_when_it_is_right() {
    let right = signed(SECRET, BODY);
    let mac = SentMac::parse(right.split_once("v1=").unwrap().1).unwrap();
    let request = request(&format!("t={NOW},v1={}", to_base64(mac.bytes())));
    assert_failure(&request, "Form of the signature", "base64");
    let steps = report(Some(&key()), &request, None, at()).steps;
    assert_eq!(steps[5].verdict, Verdict::Passed, "{steps:?}");
}

fn to_base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |group: u32, shift: u32| char::from(DIGITS[(group >> shift & 63) as usize]);
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0, |group, byte| group << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        text.extend([18, 12, 6, 0].map(|shift| digit(group, shift)).iter().take(chunk.len() + 1));
    }
    format!("{text}=")
}

#[test]
fn each_mistake_in_the_text_is_named() {
    for (signed_body, told) in [
        (format!("{BODY}\n"), "with a line break at its end"),
        (BODY.replace('\n', "\r\n"), "CR and LF"),
        ("{\"a\":1,\"b\":\"é\"}".to_owned(), "without spaces"),
        ("{\"a\": 1, \"b\": \"é\"}".to_owned(), "as Python does"),
        ("{\"a\": 1, \"b\": \"\\u00e9\"}".to_owned(), "escape sequences"),
        (String::new(), "an empty body"),
    ] {
        assert_failure(&request(&signed(SECRET, &signed_body)), "MAC", told);
    }
    for (text, told) in [
        (BODY.to_owned(), "the body alone"),
        (format!("{NOW}{BODY}"), "without the dot after t"),
        (format!("t={NOW}.{BODY}"), "with t="),
        (format!("{NOW}000.{BODY}"), "milliseconds"),
        (format!("{}.{BODY}", NOW + 1), "read the clock once"),
        (format!("{NOW}.POST.{EVENTS}.{BODY}"), "the text for v2"),
    ] {
        assert_failure(&request(&of_text(SECRET, &text)), "MAC", told);
    }
}

/// A header with the MAC of any text.
fn of_text(secret: &str, text: &str) -> String {
    format!("t={NOW},v1={}", mac_of(secret, text.as_bytes()))
}

/// HMAC-SHA256 by its definition.
fn mac_of(secret: &str, text: &[u8]) -> String {
    let mut key = [0_u8; 64];
    key[..secret.len()].copy_from_slice(secret.as_bytes());
    let pad = |byte: u8| key.map(|k| k ^ byte).to_vec();
    let inner = Sha256::digest([pad(0x36), text.to_vec()].concat());
    let outer = Sha256::digest([pad(0x5c), inner.to_vec()].concat());
    outer.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn mistakes_of_records_routes_are_named() {
    let records = |text: String| CheckedRequest {
        target: CLIENTS.to_owned(),
        method: "GET".to_owned(),
        body: String::new(),
        signature: format!("t={NOW},v2={}", mac_of(SECRET, text.as_bytes())),
        ..request("")
    };
    assert_eq!(failure(&key(), &records(format!("{NOW}.GET.{CLIENTS}.")), None).0, "none");
    for (text, told) in [
        (format!("{NOW}.get.{CLIENTS}."), "lower case"),
        (format!("{NOW}.GET./api/v1/crm/connect/clients."), "without its query"),
        (format!("{NOW}.GET./clients?email=a."), "below /api/v1/crm/connect"),
        (format!("{NOW}."), "the text for v1"),
    ] {
        assert_failure(&records(text), "MAC", told);
    }
}

#[test]
fn mistakes_with_the_secret_are_named() {
    for (secret, told) in [
        ("cs_secret\n", "line break at its end"),
        ("secret", "without what precedes its underscore"),
        ("ck_1", "the prefix of the key"),
        ("cs_old", "no longer valid"),
        ("another", "another secret"),
    ] {
        assert_failure(&request(&signed(secret, BODY)), "MAC", told);
    }
    let unkeyed = format!("t={NOW},v1={}", sha256(&format!("{NOW}.{BODY}")));
    assert_failure(&request(&unkeyed), "MAC", "SHA-256 of the text without a secret");
    let encoded = CheckedKey { secret: Some(Secret::new("cs_c2VjcmV0".to_owned())), ..key() };
    let told = failure(&encoded, &request(&signed("secret", BODY)), None);
    assert!(told.1.contains("decoded from base64"), "{told:?}");
    let valid = CheckedKey {
        old_secret: Some((Secret::new("cs_old".to_owned()), at() + chrono::TimeDelta::hours(1))),
        ..key()
    };
    assert_eq!(failure(&valid, &request(&signed("cs_old", BODY)), None).0, "none");
}

#[test]
fn the_body_is_compared_with_the_one_that_was_received() {
    let right = request(&signed(SECRET, BODY));
    let (name, told) = failure(&key(), &right, Some(&refused("something else")));
    assert!(name == "Body" && told.contains("7 bytes"), "{name}: {told}");
    // What the browser has sent is another form of what was received: the signature of the latter is right.
    let received = format!("{BODY}\n");
    let in_browser = CheckedRequest { body: BODY.replace('\n', "\r\n"), ..request(&signed(SECRET, &received)) };
    assert_eq!(failure(&key(), &in_browser, Some(&refused(&received))).0, "none");
    // It was signed before something added the line break.
    let (name, told) = failure(&key(), &right, Some(&refused(&received)));
    assert!(name == "MAC" && told.contains("without its last line break"), "{name}: {told}");
}

#[test]
fn no_report_contains_a_secret_or_a_mac() {
    for signature in ["", "t=1", "v1=zz", &signed("wrong", BODY), &signed(SECRET, "x"), &signed(SECRET, BODY)] {
        let report = report(Some(&key()), &request(signature), Some(&refused("x")), at());
        let told = format!("{report:?}");
        let right = mac_of(SECRET, format!("{NOW}.{BODY}").as_bytes());
        assert!(!told.contains(SECRET) && !told.contains(&right) && !told.contains("cs_old"), "{told}");
    }
}
