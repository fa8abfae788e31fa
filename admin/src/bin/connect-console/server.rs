//! The server: reads requests and lets threads handle them.

use crate::app::App;
use crate::database::DatabaseTime;
use crate::dispatch;
use crate::failure::Failure;
use crate::fields::Fields;
use crate::request::Request;
use common::http::{
    self, BodyReader, BodySource, BodyStream, Connection, RequestOrigin, ServerSettings, TrustedProxies, discard,
};
use hyper::HeaderMap;
use hyper::header::{CONNECTION, HeaderValue};
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
/// Largest body of a form, and bytes allocated for bodies at once.
const BODIES: (usize, usize) = (1 << 20, 32 << 20);
/// The same for forms that need no session. All connections of an address together do not use up its share.
const PUBLIC_BODIES: (usize, usize) = (8 << 10, 8 << 20);
/// Threads that handle requests. Each request stays on one.
const THREADS: usize = 2;

/// Reads the bodies of forms that need a session, and of those that do not.
#[derive(Clone)]
struct FormReader {
    all: BodyReader,
    public: BodyReader,
}

/// Serves the console until `shutdown`; then lets requests under way finish.
pub(crate) async fn serve(
    listener: TcpListener, app: Arc<App>, (settings, proxies): (ServerSettings, TrustedProxies),
    shutdown: &CancellationToken,
) {
    let threads = LocalPoolHandle::new(THREADS);
    let [all, public] = [BODIES, PUBLIC_BODIES].map(|(max, budget)| BodyReader::new(max, BODY_TIMEOUT, budget));
    let bodies = FormReader { all, public };
    let service = |connection| {
        let routes = routes(Arc::clone(&app), threads.clone(), bodies.clone(), (connection, proxies.clone()));
        http::with_host(TowerToHyperService::new(warp::service(routes)))
    };
    http::serve(listener, settings, service, shutdown).await;
}

/// All requests of a connection, whatever their path: [`dispatch`] finds the route.
fn routes(
    app: Arc<App>, threads: LocalPoolHandle, bodies: FormReader,
    (connection, proxies): (Arc<Connection>, TrustedProxies),
) -> impl Filter<Extract = (Response,), Error = Rejection, Future: Send> + Clone {
    let query = warp::query::raw().or(warp::any().map(String::new)).unify();
    let parts = warp::method().and(warp::path::full()).and(query).and(warp::header::headers_cloned());
    parts.and(warp::body::stream()).then(move |method, path: FullPath, query: String, headers: HeaderMap, body| {
        let (app, threads, bodies) = (Arc::clone(&app), threads.clone(), bodies.clone());
        let path = path.as_str().to_owned();
        let origin = RequestOrigin::of(&connection, &proxies, &headers);
        let peer = connection.peer();
        async move {
            let request = Arc::new(Request {
                id: Uuid::now_v7(),
                peer,
                method,
                path,
                // Unreadable queries are treated as missing ones: every page has defaults.
                query: Fields::parse(query.as_bytes()).unwrap_or_default(),
                headers,
                database_time: DatabaseTime::default(),
            });
            respond(app, threads, bodies, origin, request, Box::pin(body)).await
        }
    })
}

/// Lets a thread handle the request, which reads the body once it knows that the request is permitted. The operation runs to
/// completion even if its client disconnects: a change is made completely or not at all.
async fn respond(
    app: Arc<App>, threads: LocalPoolHandle, bodies: FormReader, origin: RequestOrigin, request: Arc<Request>,
    body: impl BodyStream,
) -> Response {
    let source = BodySource::new(origin.peer(), &request.headers);
    let Ok(_share) = origin.take_share() else {
        discard(source, body);
        return dispatch::respond_overloaded(&app, &request);
    };
    let (shared, handled, sender) = (Arc::clone(&app), Arc::clone(&request), origin.clone());
    let handling = threads.spawn_pinned(move || async move {
        let (is_sending, is_read) = (source.is_sending(), Cell::new(false));
        let read = async |is_public: bool| {
            is_read.set(true);
            let reader = if is_public { &bodies.public } else { &bodies.all };
            reader.read(source, body, || sender.begin_body()).await.map_err(Failure::from)
        };
        let mut response = dispatch::respond(&shared, &handled, read).await;
        if is_sending && !is_read.get() {
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response
    });
    handling.await.unwrap_or_else(|_| dispatch::respond_after_panic(&app, &request))
}
