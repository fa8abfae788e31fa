//! A small webhook receiver: verifies each webhook and prints a line about it. `make run` uses it to show webhooks.
//!
//! It behaves as a receiver should: it verifies the raw body before anything else, and responds at once with 204, or with 401
//! if the signature does not verify. It stores nothing, so it does not detect duplicates; a real receiver does, by `eventId`.
//! With `--follow` it reads the feed of a subscription instead.

mod arguments;
mod follow;

use arguments::Arguments;
use chrono::{DateTime, Utc};
use clap::Parser as _;
use common::clock::to_text;
use common::http::{self, BodyFault, BodyReader, BodySource, Connection, ServerSettings};
use common::sealed::Secret;
use common::shutdown;
use common::signature::{SignatureError, verify_webhook};
use http_body_util::BodyExt as _;
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper::{Method, Request, StatusCode};
use serde_json::Value;
use std::convert::Infallible;
use std::io::Write as _;
use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use warp::Reply as _;
use warp::reply::Response;

/// The largest body that is read, in bytes.
const MAX_BODY: usize = 1 << 20;
/// The time in which a body must arrive, and the bytes of all of them.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
const BODY_BUDGET: usize = 16 << 20;

struct Receiver {
    secret: Secret,
    verbose: bool,
    bodies: BodyReader,
}

impl Receiver {
    fn new(secret: Secret, verbose: bool) -> Self {
        Self { secret, verbose, bodies: BodyReader::new(MAX_BODY, BODY_TIMEOUT, BODY_BUDGET) }
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let ended = if arguments.follow { follow::run(&arguments).await } else { serve(&arguments).await };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(what) => {
            eprintln!("connect-receiver: {what}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(arguments: &Arguments) -> Result<(), String> {
    let receiver = Arc::new(Receiver::new(arguments.secret()?, arguments.verbose));
    let listener = TcpListener::bind(arguments.address)
        .await
        .map_err(|error| format!("cannot listen on {}: {error}", arguments.address))?;
    println!("listening on http://{}", listener.local_addr().map_err(|error| error.to_string())?);
    let shutdown_requested = shutdown::on_signal().map_err(|error| error.to_string())?;
    let settings = ServerSettings::small(Duration::from_secs(2));
    http::serve(listener, settings, |connection| http::with_host(service(&receiver, &connection)), &shutdown_requested)
        .await;
    Ok(())
}

fn service(
    receiver: &Arc<Receiver>, connection: &Connection,
) -> impl Service<Request<Incoming>, Response = Response, Error = Infallible, Future: Send> + use<> {
    let (receiver, peer) = (Arc::clone(receiver), connection.peer());
    service_fn(move |request| {
        let receiver = Arc::clone(&receiver);
        async move { Ok(status(request, peer, &receiver).await.into_response()) }
    })
}

async fn status(request: Request<Incoming>, peer: IpAddr, receiver: &Receiver) -> StatusCode {
    if request.method() != Method::POST {
        return StatusCode::METHOD_NOT_ALLOWED;
    }
    let (head, body) = request.into_parts();
    let source = BodySource::new(peer, &head.headers);
    let body = match receiver.bodies.read(source, body.into_data_stream(), || ()).await {
        Ok(body) => body,
        Err(BodyFault::TooLarge(_)) => return StatusCode::PAYLOAD_TOO_LARGE,
        Err(BodyFault::Late) => return StatusCode::REQUEST_TIMEOUT,
        Err(BodyFault::Broken) => return StatusCode::BAD_REQUEST,
        Err(BodyFault::NoMemory) => return StatusCode::SERVICE_UNAVAILABLE,
    };
    let header = |name: &str| head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let (secret, at) = (receiver.secret.reveal().as_bytes(), common::clock::now());
    let verdict = verify_webhook(secret, header("x-connect-signature"), &body, at.timestamp());
    let webhook = Webhook {
        at,
        event_type: header("x-connect-event"),
        delivery: header("x-connect-delivery"),
        tenant: header("x-connect-tenant"),
        body: &body,
        verdict,
    };
    // Standard output may be closed.
    drop(print(&webhook.text(receiver.verbose)));
    if verdict.is_ok() { StatusCode::NO_CONTENT } else { StatusCode::UNAUTHORIZED }
}

fn print(text: &str) -> std::io::Result<()> {
    std::io::stdout().write_all(text.as_bytes())
}

/// A received webhook and the result of its verification.
struct Webhook<'a> {
    at: DateTime<Utc>,
    event_type: &'a str,
    delivery: &'a str,
    tenant: &'a str,
    body: &'a [u8],
    verdict: Result<(), SignatureError>,
}

impl Webhook<'_> {
    /// One line; with `verbose`, followed by the body if the webhook verifies.
    fn text(&self, verbose: bool) -> String {
        let verdict = match self.verdict {
            Ok(()) => "verified".to_owned(),
            Err(why) => format!("NOT VERIFIED: {why}"),
        };
        let Self { event_type, delivery, tenant, .. } = self;
        let line = format!("{} {event_type} for {tenant}, delivery {delivery}: {verdict}\n", to_text(self.at));
        if verbose && self.verdict.is_ok() { line + &pretty(self.body) } else { line }
    }
}

fn pretty(body: &[u8]) -> String {
    let parsed = serde_json::from_slice::<Value>(body);
    parsed.map_or_else(|error| format!("  no JSON: {error}\n"), |value| format!("{value:#}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::tests::raw::{RawConnection, exchange};
    use ::tests::{HttpClient, HttpRequest};
    use common::signature::sign_webhook;
    use futures_util::future::join_all;
    use std::net::SocketAddr;
    use tokio::task::JoinHandle;
    use tokio_util::sync::CancellationToken;

    const BODY: &str = "{\"eventType\":\"lead.assigned\"}";

    fn webhook(secret: &str, age: i64) -> HttpRequest {
        let header = sign_webhook([secret.as_bytes()], ::tests::now() - age, BODY.as_bytes());
        HttpRequest::new("POST", "/webhooks", BODY).with("x-connect-signature", header)
    }

    /// A receiver with the secret `s3cret`, and its address.
    async fn receiver() -> (JoinHandle<()>, SocketAddr) {
        let receiver = Arc::new(Receiver::new(Secret::new("s3cret".to_owned()), true));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let settings = ServerSettings::small(Duration::ZERO);
        let shutdown = CancellationToken::new();
        let serving = async move {
            http::serve(listener, settings, |connection| http::with_host(service(&receiver, &connection)), &shutdown)
                .await;
        };
        (tokio::spawn(serving), address)
    }

    #[tokio::test]
    async fn rejects_webhooks_that_do_not_verify() {
        let (accepting, address) = receiver().await;
        let http = HttpClient::new(address);
        for (request, status) in [
            (webhook("s3cret", 0), 204),
            (webhook("other", 0), 401),
            (webhook("s3cret", 310), 401),
            (webhook("s3cret", 0).with_body("{}"), 401),
            (webhook("s3cret", 0).without("x-connect-signature"), 401),
            (HttpRequest::new("GET", "/webhooks", ""), 405),
            (webhook("s3cret", 0).with_body("x".repeat(MAX_BODY + 1)), 413),
        ] {
            assert_eq!(http.send(&request).await.status, status, "{request:?}");
        }
        accepting.abort();
    }

    #[tokio::test]
    async fn bodies_that_do_not_end_take_a_share_of_memory_for_a_limited_time() {
        let (accepting, address) = receiver().await;
        let begun =
            format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {MAX_BODY}\r\n\r\n{}", "x".repeat(MAX_BODY - 1));
        let mut slow = Vec::new();
        for _ in 0..=BODY_BUDGET / 4 / MAX_BODY {
            let mut connection = RawConnection::to(address).await;
            connection.send(&begun).await;
            slow.push(connection);
        }
        let bodies = slow.iter_mut().map(RawConnection::response);
        let statuses = join_all(bodies).await.into_iter().map(|response| response.unwrap().status).collect::<Vec<_>>();
        let count = |status| statuses.iter().filter(|&&found| found == status).count();
        // A body that grows counts twice for a moment.
        assert!(count(503) > 0 && count(408) > 0 && count(503) + count(408) == slow.len(), "{statuses:?}");
        assert_eq!(HttpClient::new(address).send(&webhook("s3cret", 0)).await.status, 204);
        assert_eq!(exchange(address, "GET example.com:80 HTTP/1.1\r\nhost: a\r\n\r\n").await.status, 400);
        accepting.abort();
    }

    fn text(verdict: Result<(), SignatureError>, verbose: bool) -> String {
        let at = DateTime::parse_from_rfc3339("2026-01-01T00:00:00Z").unwrap().to_utc();
        let body = br#"{"eventType":"lead.assigned"}"#;
        let (event_type, delivery, tenant) = ("lead.assigned", "0195f0c2", "demo");
        Webhook { at, event_type, delivery, tenant, body, verdict }.text(verbose)
    }

    #[test]
    fn a_line_says_what_came_and_whether_it_verifies() {
        let line = "2026-01-01T00:00:00.000Z lead.assigned for demo, delivery 0195f0c2: ";
        assert_eq!(text(Ok(()), false), format!("{line}verified\n"));
        let expected = format!("{line}verified\n{{\n  \"eventType\": \"lead.assigned\"\n}}\n");
        assert_eq!(text(Ok(()), true), expected);
        for verbose in [false, true] {
            let expected = format!("{line}NOT VERIFIED: mismatch\n");
            assert_eq!(text(Err(SignatureError::Mismatch), verbose), expected);
        }
    }
}
