//! The floor of refusals: a bare warp server that reads the body, computes one HMAC and refuses. It has a runtime of its
//! own with a thread for each processor, as ingest has; no key look-up, no limits, no logs, no metrics.

use common::signature::{Signature, Signed};
use hyper::body::Bytes;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use std::net::{Ipv4Addr, SocketAddr};
use tokio::sync::oneshot;
use warp::Filter;
use warp::http::StatusCode;

/// As long as a secret is.
const SECRET: &[u8] = b"cs_0123456789012345678901234567890123456789012345";
const REFUSAL: &str = r#"{"statusCode":401,"code":"unauthorized","message":"Invalid Connect credentials"}"#;

/// A running server; it stops when the value is dropped.
pub(super) struct BareServer {
    address: SocketAddr,
    _running: oneshot::Sender<()>,
}

impl BareServer {
    pub(super) fn start() -> Self {
        let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        listener.set_nonblocking(true).expect("a listener for the runtime");
        let address = listener.local_addr().expect("the port's number");
        let (running, ended) = oneshot::channel::<()>();
        std::thread::spawn(move || {
            let runtime =
                tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::from_std(listener).expect("a listener");
                tokio::select! {
                    () = accept(&listener) => {}
                    // An error, as nothing is ever sent.
                    _ = ended => {}
                }
            });
        });
        Self { address, _running: running }
    }

    pub(super) const fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn accept(listener: &tokio::net::TcpListener) {
    while let Ok((socket, _)) = listener.accept().await {
        socket.set_nodelay(true).expect("a socket that takes the option");
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
