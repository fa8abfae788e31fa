//! Signs a batch of events and sends it: `cargo run -p tests --example send-batch ENQUIRY`
//!
//! ENQUIRY is your own id of the enquiry, of letters, digits and dashes. The events' ids are made of it: sent again, they
//! are `duplicate` and have no second effect. Prints the results. Needs the crates chrono, hex, hmac, serde_json, sha2 and
//! ureq.

use chrono::{DateTime, Utc};
use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use std::env::{args_os, var_os};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const USAGE: &str =
    "usage: send-batch ENQUIRY, with CONNECT_URL, CONNECT_TENANT, CONNECT_KEY and CONNECT_SECRET set";
const ATTEMPTS: u32 = 5;

/// What is set in the environment.
struct Settings {
    url: String,
    tenant: String,
    key: String,
    secret: String,
}

/// An answer.
struct Answer {
    status: u16,
    request_id: String,
    retry_after: Duration,
    body: String,
}

fn main() -> ExitCode {
    let mut wrong = Vec::new();
    let enquiry = args_os().nth(1).and_then(|argument| argument.into_string().ok()).unwrap_or_default();
    if !is_id(&enquiry) {
        wrong.push("ENQUIRY");
    }
    let settings = Settings::read(&mut wrong);
    if !wrong.is_empty() {
        eprintln!("{USAGE}; missing or wrong: {}", wrong.join(" "));
        return ExitCode::from(2);
    }

    let payload = json!({"externalLeadId": enquiry, "destination": "Kerala", "paxCount": 2});
    let events = [
        event(&settings.tenant, &format!("{enquiry}-contact"), "contact.identified", &json!({})),
        event(&settings.tenant, &format!("{enquiry}-enquiry"), "enquiry.submitted", &payload),
    ];
    let body = json!({ "events": events }).to_string();
    for attempt in 1.. {
        let wait = match settings.send(&body) {
            Ok(Answer { status: 200, body, .. }) => {
                println!("{body}");
                return ExitCode::SUCCESS;
            }
            // Perhaps it was taken, perhaps not. The same events again are safe either way; each attempt is signed anew.
            Ok(Answer { status: 503, retry_after, .. }) if attempt < ATTEMPTS => retry_after,
            Err(_) if attempt < ATTEMPTS => Duration::from_secs(1),
            Ok(Answer { status, request_id, body, .. }) => {
                eprintln!("refused with {status}, X-Request-Id {request_id}: {body}");
                break;
            }
            Err(lost) => {
                eprintln!("no answer: {lost}");
                break;
            }
        };
        sleep(wait);
    }
    ExitCode::FAILURE
}

/// Letters, digits and dashes.
fn is_id(text: &str) -> bool {
    (1..=80).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

fn event(tenant: &str, id: &str, kind: &str, payload: &Value) -> Value {
    json!({
        "specVersion": "1.0",
        "eventId": id,
        "eventType": kind,
        "occurredAt": DateTime::<Utc>::from(SystemTime::now()).to_rfc3339(),
        "tenant": tenant,
        "origin": "example-site",
        "actor": {"type": "contact", "email": "mira.sen@example.com", "name": "Mira Sen"},
        "payload": payload,
    })
}

impl Settings {
    /// Adds the names of those that aren't set to `missing`.
    fn read(missing: &mut Vec<&'static str>) -> Self {
        let mut setting = |name| {
            let value = var_os(name).and_then(|value| value.into_string().ok()).unwrap_or_default();
            if value.is_empty() {
                missing.push(name);
            }
            value
        };
        Self {
            url: setting("CONNECT_URL").trim_end_matches('/').to_owned(),
            tenant: setting("CONNECT_TENANT"),
            key: setting("CONNECT_KEY"),
            secret: setting("CONNECT_SECRET"),
        }
    }

    /// One attempt. The error says why no answer came.
    fn send(&self, body: &str) -> Result<Answer, ureq::Error> {
        // Over the very bytes that are sent: what is serialised again after signing doesn't verify.
        let time = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_secs();
        let mut mac = Hmac::<Sha256>::new_from_slice(self.secret.as_bytes()).expect("a key has any length");
        mac.update(format!("{time}.{body}").as_bytes());
        let signature = format!("t={time},v1={}", hex::encode(mac.finalize().into_bytes()));

        let mut answer = ureq::post(format!("{}/api/v1/crm/connect/events", self.url))
            .config()
            .timeout_global(Some(Duration::from_secs(30)))
            .http_status_as_error(false)
            .build()
            .header("Content-Type", "application/json")
            .header("X-Connect-Key", &self.key)
            .header("X-Connect-Tenant", &self.tenant)
            .header("X-Connect-Signature", signature)
            .send(body)?;
        let header =
            |name| answer.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        // Never the same second again: that would be the same signature.
        let retry_after = header("retry-after").parse().unwrap_or(1).max(1);
        Ok(Answer {
            status: answer.status().as_u16(),
            request_id: header("x-request-id").to_owned(),
            retry_after: Duration::from_secs(retry_after),
            body: answer.body_mut().read_to_string()?,
        })
    }
}
