//! Creates a lead: `cargo run -p tests --example create-lead ORDER`
//!
//! ORDER is your own id of it, and becomes the idempotency key: sent again, the same lead is answered and none is made.
//! Prints the answer.

use hmac::{Hmac, KeyInit, Mac};
use serde_json::json;
use sha2::Sha256;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

type Failure = Box<dyn std::error::Error>;

const LEADS: &str = "/api/v1/crm/connect/leads";

fn main() -> Result<ExitCode, Failure> {
    let order = std::env::args().nth(1).ok_or("your id of the lead?")?;
    let body = json!({
        "contact": {"email": "cara@example.com", "name": "Cara"},
        "externalId": order,
        "destination": "Lisbon",
        "party": {"adults": 2, "children": 0},
        "message": "We would like to stay near the river.",
    })
    .to_string();
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .timeout_global(Some(Duration::from_secs(30)))
        .http_status_as_error(false)
        .build()
        .into();
    for attempt in 1.. {
        let (status, retry_after, answer) = create(&agent, &order, &body)?;
        match status {
            201 => {
                println!("{answer}");
                return Ok(ExitCode::SUCCESS);
            }
            // Perhaps it was done, perhaps not. With the same idempotency key it is done once.
            503 if attempt < 5 => std::thread::sleep(retry_after),
            _ => {
                eprintln!("refused with {status}: {answer}");
                break;
            }
        }
    }
    Ok(ExitCode::FAILURE)
}

/// One attempt: the answer's status, after what time to try again, its body.
fn create(agent: &ureq::Agent, order: &str, body: &str) -> Result<(u16, Duration, String), Failure> {
    // Of a records route the method and the path with its query are signed as well, as `v2`; without a body, an empty one.
    let time = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let mut mac = Hmac::<Sha256>::new_from_slice(setting("CONNECT_SECRET")?.as_bytes())?;
    mac.update(format!("{time}.POST.{LEADS}.{body}").as_bytes());
    let signature = format!("t={time},v2={}", hex::encode(mac.finalize().into_bytes()));

    let mut answer = agent
        .post(format!("{}{LEADS}", setting("CONNECT_URL")?))
        .header("Content-Type", "application/json")
        .header("X-Connect-Key", setting("CONNECT_KEY")?)
        .header("X-Connect-Tenant", setting("CONNECT_TENANT")?)
        .header("X-Connect-Signature", signature)
        .header("Idempotency-Key", order)
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
