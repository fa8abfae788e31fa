//! `--follow`: prints the feed of a subscription, for developers whose machines Connect cannot reach.

use super::arguments::Arguments;
use super::{pretty, print};
use bytes::Bytes;
use common::sealed::Secret;
use common::settings::{Environment, Section, SettingError, Variable};
use common::signature::{Signed, sign};
use common::tls::TrustedRoots;
use common::{clock, variables};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::{Request, StatusCode};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use serde_json::Value;
use std::time::Duration;
use tokio::time::{sleep, timeout};

const PATH: &str = "/api/v1/crm/connect/webhooks";
/// How long Connect holds a request, in seconds, and how long a response is waited for.
const WAIT: u64 = 25;
const RESPONSE: Duration = Duration::from_secs(60);
/// The largest response, in bytes.
const BYTES: usize = 32 << 20;
const RETRY: Duration = Duration::from_secs(2);
/// What 404 means here.
const NO_SUBSCRIPTION: &str = "no subscription names this key, or not the one of --subscription; \
    `connectctl subscription create --key PREFIX` creates one that does";

/// Where the feed is, and whose. The names are those of tests/examples.
struct FeedSettings {
    url: String,
    tenant: String,
    key: String,
    secret: Secret,
}

impl Section for FeedSettings {
    const VARIABLES: &'static [Variable] = variables! {
        "CONNECT_URL" => required, "where Connect is, such as https://connect.example.com";
        "CONNECT_TENANT" => required, "the slug of the agency";
        "CONNECT_KEY" => required, "the prefix of the API key";
        "CONNECT_SECRET" => required, "its secret";
    };

    fn from_env(env: &Environment) -> Result<Self, SettingError> {
        Ok(Self {
            url: env.get::<Self, String>("CONNECT_URL")?.trim_end_matches('/').to_owned(),
            tenant: env.get::<Self, _>("CONNECT_TENANT")?,
            key: env.get::<Self, _>("CONNECT_KEY")?,
            secret: env.get::<Self, _>("CONNECT_SECRET")?,
        })
    }
}

/// Why there is no page: the text says so, and whether a retry may help.
struct Fault {
    is_temporary: bool,
    text: String,
}

struct Feed {
    settings: FeedSettings,
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
}

/// Prints deliveries until it is ended, or standard output is closed. The error says why the feed cannot be read.
pub(crate) async fn run(arguments: &Arguments) -> Result<(), String> {
    let settings = FeedSettings::from_env(&Environment::from_process()).map_err(|error| error.to_string())?;
    let tls = TrustedRoots::system().client().map_err(|error| format!("TLS cannot be set up: {error}"))?;
    let tls = HttpsConnectorBuilder::new().with_tls_config(tls.with_no_client_auth());
    let connector = tls.https_or_http().enable_http1().build();
    let feed = Feed { settings, client: Client::builder(TokioExecutor::new()).build(connector) };
    let subscription = arguments.subscription.as_ref().map(|id| format!("&subscription={id}"));
    let subscription = subscription.unwrap_or_default();
    let mut after = arguments.after;
    loop {
        // A signature is good for one request, and this one may be repeated within a second.
        let nonce: u32 = rand::random();
        match feed.page(&format!("{PATH}?after={after}&wait={WAIT}{subscription}&nonce={nonce}")).await {
            Ok(page) => {
                for delivery in page["data"].as_array().into_iter().flatten() {
                    let number = delivery["number"].as_u64().unwrap_or_default();
                    if print(&text(delivery, number, after, arguments.verbose)).is_err() {
                        return Ok(());
                    }
                    after = number;
                }
            }
            Err(fault) if fault.is_temporary => {
                eprintln!("connect-receiver: {}; retrying in {} s", fault.text, RETRY.as_secs());
                sleep(RETRY).await;
            }
            Err(fault) => return Err(fault.text),
        }
    }
}

impl Feed {
    async fn page(&self, target: &str) -> Result<Value, Fault> {
        let temporary = |text: String| Fault { is_temporary: true, text };
        let FeedSettings { url, tenant, key, secret } = &self.settings;
        let signed = Signed::Request { method: "GET", target, body: b"" };
        let request = Request::get(format!("{url}{target}"))
            .header("x-connect-key", key)
            .header("x-connect-tenant", tenant)
            .header("x-connect-signature", sign(secret.reveal().as_bytes(), clock::now().timestamp(), signed))
            .body(Empty::new())
            .map_err(|error| Fault { is_temporary: false, text: format!("setting CONNECT_URL: {error}") })?;
        let exchange = async {
            let response = self.client.request(request).await.map_err(|error| error.to_string())?;
            let (head, body) = response.into_parts();
            let body = Limited::new(body, BYTES).collect().await.map_err(|error| error.to_string())?;
            Ok::<_, String>((head, body.to_bytes()))
        };
        let exchanged = timeout(RESPONSE, exchange).await.unwrap_or_else(|_| Err("no response".to_owned()));
        let (head, body) = exchanged.map_err(|error| temporary(format!("{url}: {error}")))?;
        let status = head.status;
        let said: Value = serde_json::from_slice(&body).unwrap_or_default();
        if status == StatusCode::OK && said["data"].is_array() {
            return Ok(said);
        }
        let is_temporary = status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS;
        // An unknown route, because of a wrong CONNECT_URL, has the same status and code.
        let message = match said["message"].as_str() {
            Some("No such record") => NO_SUBSCRIPTION,
            message => message.unwrap_or("not a response of Connect"),
        };
        let request = head.headers.get("x-request-id").and_then(|id| id.to_str().ok()).unwrap_or("none");
        Err(Fault { is_temporary, text: format!("{url} responded with {status}: {message} (X-Request-Id: {request})") })
    }
}

/// One line, and one before it if numbers are missing; with `verbose`, followed by the body.
fn text(delivery: &Value, number: u64, after: u64, verbose: bool) -> String {
    let said = |value: &Value| value.as_str().unwrap_or("erased").to_owned();
    let envelope = &delivery["envelope"];
    let (at, event_type) = (said(&envelope["occurredAt"]), said(&envelope["eventType"]));
    let (id, state) = (said(&delivery["deliveryId"]), said(&delivery["state"]));
    let mut text = String::new();
    if number > after + 1 {
        text = format!("{} to {} are not stored any more\n", after + 1, number - 1);
    }
    text += &format!("{number} {at} {event_type}, delivery {id}: {state}\n");
    if verbose && envelope.is_object() { text + &pretty(envelope.to_string().as_bytes()) } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_line_has_the_number_and_a_gap_is_told() {
        let envelope = json!({"eventType": "lead.assigned", "occurredAt": "2026-01-01T00:00:00.000Z"});
        let delivery = json!({"deliveryId": "0195f0c2", "state": "delivered", "envelope": envelope});
        let line = "2026-01-01T00:00:00.000Z lead.assigned, delivery 0195f0c2: delivered\n";
        assert_eq!(text(&delivery, 8, 7, false), format!("8 {line}"));
        assert_eq!(text(&delivery, 8, 0, false), format!("1 to 7 are not stored any more\n8 {line}"));
        assert_eq!(text(&delivery, 8, 7, true), format!("8 {line}{envelope:#}\n"));
        let erased = json!({"deliveryId": "0195f0c2", "state": "dropped", "envelope": null});
        assert_eq!(text(&erased, 8, 7, true), "8 erased erased, delivery 0195f0c2: dropped\n");
    }
}
