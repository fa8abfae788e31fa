//! Refused requests. Their floor is a bare warp server that reads the body, computes one HMAC and refuses: no key
//! look-up, no limits, no logs, no metrics.

use crate::comparison::Comparison;
use crate::measure::{LoadStats, Sender, measure};
use crate::options::Options;
use crate::traffic::{Traffic, body, random_id};
use crate::worlds::{builder, warnings};
use common::signature::{Signature, Signed};
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use std::net::Ipv4Addr;
use std::time::Duration;
use tests::{ApiKey, HttpRequest, now};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use warp::Filter;
use warp::http::StatusCode;

const CONNECTIONS: usize = 8;

/// Why a request is refused, and with which status.
const REASONS: [(&str, u16); 4] = [("bad signature", 401), ("unknown key", 401), (UNKNOWN_KEYS, 401), (MALFORMED, 400)];
const UNKNOWN_KEYS: &str = "unknown keys, each once";
const MALFORMED: &str = "signed, but malformed";
/// As long as a secret is.
const SECRET: &[u8] = b"cs_0123456789012345678901234567890123456789012345";
const REFUSAL: &str = r#"{"statusCode":401,"code":"unauthorized","message":"Invalid Connect credentials"}"#;

pub(crate) async fn run(options: &Options) -> String {
    let world = builder().start().await;
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.expect("a free port");
    let address = listener.local_addr().expect("the port's number");
    // A thread for each processor, of which ingest uses half.
    let server = Builder::new_multi_thread().enable_all().build().expect("a runtime");
    server.spawn(serve(listener.into_std().expect("a listener")));
    let mut comparison = Comparison::of_rates("refusals", "bare warp");
    for _ in 0..options.rounds {
        for (reason, status) in REASONS {
            let ingest = Sender::new(&world, &world.key);
            let bare = Sender::to(vec![address], &world.key);
            let load = refusals(&ingest, reason, Some(status), options.duration());
            let floor = refusals(&bare, reason, None, options.floor());
            comparison.measure(reason, &world, load, floor).await;
        }
    }
    server.shutdown_background();
    format!(
        "Requests with one event that are refused, {CONNECTIONS} connections. Before the first refusal of a key in\n0.9 s, ingest asks the database. Floor: the same requests to a bare warp server that computes one HMAC and refuses.\n\n{}{}",
        comparison.tables(),
        warnings(&world)
    )
}

/// Measures refused requests of one kind. Each response must have this status, if there is one.
async fn refusals(sender: &Sender, reason: &str, status: Option<u16>, length: Duration) -> LoadStats {
    let request = request(&sender.key, reason);
    measure(CONNECTIONS, length, 1, async |_| {
        // Each request has another key, or another signature, which may be used once only.
        let own = [UNKNOWN_KEYS, MALFORMED].contains(&reason).then(|| self::request(&sender.key, reason));
        let (response, took) = sender.exchange(own.as_ref().unwrap_or(&request)).await;
        assert!(status.is_none_or(|status| response.status == status), "{reason}: {response:?}");
        took
    })
    .await
}

fn request(key: &ApiKey, reason: &str) -> HttpRequest {
    let (mut key, mut body) = (key.clone(), body(&Traffic::Identified.draw(1), &key.tenant));
    match reason {
        "bad signature" => key.secret = key.secret.chars().rev().collect(),
        "unknown key" | UNKNOWN_KEYS => key.prefix = format!("ck_{:016x}", random_id().as_u64_pair().0),
        MALFORMED => body = body.replacen("contact.identified", "contact.unheard-of", 1),
        _ => {}
    }
    key.events_at(now(), body)
}

async fn serve(listener: std::net::TcpListener) {
    let listener = TcpListener::from_std(listener).expect("a listener of this runtime");
    while let Ok((socket, _)) = listener.accept().await {
        let service = TowerToHyperService::new(warp::service(route()));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(socket), service));
    }
}

fn route() -> impl Filter<Extract = (impl warp::Reply,), Error = warp::Rejection> + Clone {
    warp::post().and(warp::header::<String>("x-connect-signature")).and(warp::body::bytes()).map(
        |signature: String, body: Bytes| {
            let signature = Signature::parse(&signature);
            let verified = signature.and_then(|one| one.check_mac(SECRET, Signed::Body(&body)));
            let status = if verified.is_ok() { StatusCode::OK } else { StatusCode::UNAUTHORIZED };
            let reply = warp::reply::with_header(REFUSAL, "content-type", "application/json");
            warp::reply::with_status(reply, status)
        },
    )
}
