//! Signs a batch of events and sends it: `cargo run -p tests --example send-batch ENQUIRY`
//!
//! ENQUIRY is your own id of the enquiry. The events' ids are made of it: sent again, they are `duplicate` and have no
//! second effect. Prints the results.

use hmac::{Hmac, KeyInit, Mac};
use serde_json::{Value, json};
use sha2::Sha256;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

type Failure = Box<dyn std::error::Error>;

fn main() -> Result<ExitCode, Failure> {
    let enquiry = std::env::args().nth(1).ok_or("your id of the enquiry?")?;
    let tenant = setting("CONNECT_TENANT")?;
    let payload = json!({"externalLeadId": enquiry, "destination": "Kerala", "paxCount": 2});
    let events = [
        event(&tenant, &format!("{enquiry}-contact"), "contact.identified", &json!({})),
        event(&tenant, &format!("{enquiry}-enquiry"), "enquiry.submitted", &payload),
    ];
    let body = json!({ "events": events }).to_string();
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(Duration::from_secs(30)))
        .http_status_as_error(false)
        .build()
        .into();
    for attempt in 1.. {
        let (status, retry_after, answer) = send(&agent, &tenant, &body)?;
        match status {
            200 => {
                println!("{answer}");
                return Ok(ExitCode::SUCCESS);
            }
            // Perhaps it was taken, perhaps not. The same events again are safe either way; each attempt is signed anew.
            503 if attempt < 5 => std::thread::sleep(retry_after),
            _ => {
                eprintln!("refused with {status}: {answer}");
                break;
            }
        }
    }
    Ok(ExitCode::FAILURE)
}

fn event(tenant: &str, id: &str, kind: &str, payload: &Value) -> Value {
    json!({
        "specVersion": "1.0",
        "eventId": id,
        "eventType": kind,
        "occurredAt": "2026-05-01T10:00:00Z",
        "tenant": tenant,
        "origin": "example-site",
        "actor": {"type": "contact", "email": "mira.sen@example.com", "name": "Mira Sen"},
        "payload": payload,
    })
}

/// One attempt: the answer's status, after what time to try again, its body.
fn send(agent: &ureq::Agent, tenant: &str, body: &str) -> Result<(u16, Duration, String), Failure> {
    // Over the very bytes that are sent: what is serialised again after signing doesn't verify.
    let time = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let mut mac = Hmac::<Sha256>::new_from_slice(setting("CONNECT_SECRET")?.as_bytes())?;
    mac.update(format!("{time}.{body}").as_bytes());
    let signature = format!("t={time},v1={}", hex::encode(mac.finalize().into_bytes()));

    let mut answer = agent
        .post(format!("{}/api/v1/crm/connect/events", setting("CONNECT_URL")?))
        .header("Content-Type", "application/json")
        .header("X-Connect-Key", setting("CONNECT_KEY")?)
        .header("X-Connect-Tenant", tenant)
        .header("X-Connect-Signature", signature)
        .send(body)?;
    let retry_after =
        answer.headers().get("retry-after").and_then(|seconds| seconds.to_str().ok()?.parse().ok());
    let retry_after = Duration::from_secs(retry_after.unwrap_or(1));
    Ok((answer.status().as_u16(), retry_after, answer.body_mut().read_to_string()?))
}

#[expect(clippy::disallowed_methods, reason = "these are no settings of a program of Connect's")]
fn setting(name: &str) -> Result<String, Failure> {
    std::env::var(name).map_err(|error| format!("{name}: {error}").into())
}
