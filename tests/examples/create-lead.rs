//! Creates a lead: `cargo run -p tests --example create-lead ORDER`
//!
//! ORDER is your own id of it, of letters, digits and dashes, and becomes the idempotency key: when it is sent
//! again, the response is the same lead. Prints the response. Needs the crates hex, hmac, serde_json, sha2 and ureq.

use hmac::{Hmac, KeyInit, Mac};
use serde_json::json;
use sha2::Sha256;
use std::env::{args_os, var_os};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const USAGE: &str =
    "usage: create-lead ORDER, with CONNECT_URL, CONNECT_TENANT, CONNECT_KEY and CONNECT_SECRET set";
const LEADS: &str = "/api/v1/crm/connect/leads";
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
    let order = args_os().nth(1).and_then(|argument| argument.into_string().ok()).unwrap_or_default();
    if !is_id(&order) {
        wrong.push("ORDER");
    }
    let settings = Settings::from_environment(&mut wrong);
    if !wrong.is_empty() {
        eprintln!("{USAGE}; missing or wrong: {}", wrong.join(" "));
        return ExitCode::from(2);
    }

    let body = json!({
        "contact": {"email": "cara@example.com", "name": "Cara"},
        "externalId": order,
        "destination": "Lisbon",
        "party": {"adults": 2, "children": 0},
        "message": "We would like to stay near the river.",
    })
    .to_string();
    for attempt in 1.. {
        // Each attempt is signed again.
        let wait = match settings.create(&order, &body) {
            Ok(Response { status: 201, body, .. }) => {
                println!("{body}");
                return ExitCode::SUCCESS;
            }
            Ok(response) if attempt < ATTEMPTS && response.is_retryable() => response.retry_after,
            // The lead may have been created. With the same idempotency key that happens once.
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

impl Response {
    /// Whether to try again. 503: the lead may have been created; with the same idempotency key that happens once.
    /// `lead_create_failed`: nothing was stored.
    fn is_retryable(&self) -> bool {
        self.status == 503 || self.status == 500 && self.body.contains("\"lead_create_failed\"")
    }
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
    fn create(&self, order: &str, body: &str) -> Result<Response, ureq::Error> {
        // Of a records route the method and the path with its query are signed as well, as `v2`; without a body, an empty one.
        let time = SystemTime::now().duration_since(UNIX_EPOCH).expect("a clock after 1970").as_secs();
        let mut mac =
            Hmac::<Sha256>::new_from_slice(self.secret.as_bytes()).expect("HMAC takes keys of any length");
        mac.update(format!("{time}.POST.{LEADS}.{body}").as_bytes());
        let signature = format!("t={time},v2={}", hex::encode(mac.finalize().into_bytes()));

        let mut response = ureq::post(format!("{}{LEADS}", self.url))
            .config()
            .timeout_global(Some(Duration::from_secs(30)))
            .http_status_as_error(false)
            .build()
            .header("Content-Type", "application/json")
            .header("X-Connect-Key", &self.key)
            .header("X-Connect-Tenant", &self.tenant)
            .header("X-Connect-Signature", signature)
            .header("Idempotency-Key", order)
            .send(body)?;
        let header =
            |name| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let retry_after = header("retry-after").parse().unwrap_or(1).max(1);
        Ok(Response {
            status: response.status().as_u16(),
            request_id: header("x-request-id").to_owned(),
            retry_after: Duration::from_secs(retry_after),
            body: response.body_mut().read_to_string()?,
        })
    }
}
