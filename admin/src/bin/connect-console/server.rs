//! The server: reads requests and lets threads handle them.

use crate::app::App;
use crate::database::DatabaseTime;
use crate::dispatch;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::request::{BODY_MAX, Request};
use common::http::{self, BodyReader, BodySource, BodyStream, Connection, ConnectionTimes, ServerSettings};
use hyper::header::{CONNECTION, HeaderValue};
use hyper::{HeaderMap, Method};
use hyper_util::service::TowerToHyperService;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::LocalPoolHandle;
use uuid::Uuid;
use warp::path::FullPath;
use warp::reply::Response;
use warp::{Filter, Rejection};

/// How long a body may take to arrive.
const BODY_TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes allocated for bodies at once.
const BODY_BUDGET: usize = 32 << 20;
/// Threads that handle requests. Each request stays on one.
const THREADS: usize = 2;

/// Serves the console until `shutdown`; then lets requests under way finish, for at most `drain_within`.
pub(crate) async fn serve(
    listener: TcpListener,
    app: Arc<App>,
    (times, drain_within): (ConnectionTimes, Duration),
    shutdown: &CancellationToken,
) {
    let threads = LocalPoolHandle::new(THREADS);
    let bodies = BodyReader::new(BODY_MAX, BODY_TIMEOUT, BODY_BUDGET);
    let service = |connection| {
        let routes = routes(Arc::clone(&app), threads.clone(), bodies.clone(), connection);
        http::with_host(TowerToHyperService::new(warp::service(routes)))
    };
    let mut settings = ServerSettings::small(drain_within);
    settings.limits.times = times;
    http::serve(listener, settings, service, shutdown).await;
}

/// All requests of a connection, whatever their path: [`dispatch`] finds the route.
fn routes(
    app: Arc<App>,
    threads: LocalPoolHandle,
    bodies: BodyReader,
    connection: Arc<Connection>,
) -> impl Filter<Extract = (Response,), Error = Rejection, Future: Send> + Clone {
    let query = warp::query::raw().or(warp::any().map(String::new)).unify();
    let parts = warp::method().and(warp::path::full()).and(query).and(warp::header::headers_cloned());
    parts.and(warp::body::stream()).then(move |method, path: FullPath, query, headers, body| {
        let (app, threads, bodies) = (Arc::clone(&app), threads.clone(), bodies.clone());
        let (path, connection) = (path.as_str().to_owned(), Arc::clone(&connection));
        async move {
            respond(app, threads, bodies, connection, (method, path, query, headers), Box::pin(body)).await
        }
    })
}

/// Lets a thread handle the request, which reads the body once it knows that the request is permitted. The operation runs to
/// completion even if its client disconnects: a change is made completely or not at all.
async fn respond(
    app: Arc<App>,
    threads: LocalPoolHandle,
    bodies: BodyReader,
    connection: Arc<Connection>,
    (method, path, raw_query, headers): (Method, String, String, HeaderMap),
    body: impl BodyStream,
) -> Response {
    let peer = connection.peer();
    // Unreadable queries are treated as missing ones: every page has defaults.
    let query = Fields::parse(raw_query.as_bytes()).unwrap_or_default();
    let request = Arc::new(Request {
        id: Uuid::now_v7(),
        peer,
        method,
        path,
        query,
        headers,
        database_time: DatabaseTime::default(),
    });
    let (shared, handled) = (Arc::clone(&app), Arc::clone(&request));
    let handling = threads.spawn_pinned(move || async move {
        let source = BodySource::new(peer, &handled.headers);
        let (is_sending, is_read) = (source.is_sending(), Cell::new(false));
        let read = async || {
            is_read.set(true);
            bodies.read(source, body, || connection.begin_body()).await.map_err(Failure::from)
        };
        let mut response = dispatch::respond(&shared, &handled, read).await;
        if is_sending && !is_read.get() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    });
    handling.await.unwrap_or_else(|_| dispatch::respond_after_panic(&app, &request))
}
