//! Signs a batch of events and sends it: `cargo run -p tests --example send-batch ENQUIRY`
//!
//! ENQUIRY is your own id of the enquiry, of letters, digits and dashes. The events' ids contain it: sent again, they
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

/// Settings from environment variables.
struct Settings {
    url: String,
    tenant: String,
    key: String,
    secret: String,
}

/// The parts of a response that this example needs.
struct Response {
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
    let settings = Settings::from_environment(&mut wrong);
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
            Ok(Response { status: 200, body, .. }) => {
                println!("{body}");
                return ExitCode::SUCCESS;
            }
            // The events may have been applied or not. Sending them again is safe either way; each attempt is signed again.
            Ok(Response { status: 503, retry_after, .. }) if attempt < ATTEMPTS => retry_after,
            Err(_) if attempt < ATTEMPTS => Duration::from_secs(1),
            Ok(Response { status, request_id, body, .. }) => {
                eprintln!("refused with {status}, X-Request-Id {request_id}: {body}");
                break;
            }
            Err(lost) => {
                eprintln!("no response: {lost}");
                break;
            }
        };
        sleep(wait);
    }
    ExitCode::FAILURE
}

/// Whether an id consists of 1 to 80 letters, digits and dashes.
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
    /// Reads the settings and adds the names of missing ones to `missing`.
    fn from_environment(missing: &mut Vec<&'static str>) -> Self {
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

    /// Sends one attempt. The error says why there was no response.
    fn send(&self, body: &str) -> Result<Response, ureq::Error> {
        // Signs exactly the bytes that are sent: a body that is serialized again after signing does not verify.
        let time = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_secs();
        let mut mac =
            Hmac::<Sha256>::new_from_slice(self.secret.as_bytes()).expect("HMAC takes keys of any length");
        mac.update(format!("{time}.{body}").as_bytes());
        let signature = format!("t={time},v1={}", hex::encode(mac.finalize().into_bytes()));

        let mut response = ureq::post(format!("{}/api/v1/crm/connect/events", self.url))
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
            |name| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        // Never the same second again: that would be the same signature.
        let retry_after = header("retry-after").parse().unwrap_or(1).max(1);
        Ok(Response {
            status: response.status().as_u16(),
            request_id: header("x-request-id").to_owned(),
            retry_after: Duration::from_secs(retry_after),
            body: response.body_mut().read_to_string()?,
        })
    }
}
