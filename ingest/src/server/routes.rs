//! Dispatches requests to their handlers. Only the paths of [`Route`] are served, so that exactly the described routes exist.

use crate::docs::{Asset, Docs, DocsSettings};
use crate::handlers::Services;
use crate::http::RequestHead;
use crate::http::observe::RouteLabel;
use crate::http::route::{Endpoint, Route};
use crate::refusal::Refusal;
use common::http::{BodyStream, discard};
use common::limited;
use common::log_limit::LogLimit;
use std::convert::Infallible;
use std::sync::Arc;
use warp::path::FullPath;
use warp::reply::Response;
use warp::{Filter, Rejection, Reply};

/// Limits the log lines of unhandled rejections.
static REJECTIONS: LogLimit<1> = LogLimit::new();

/// All routes. Unknown paths are refused here as well, so that warp never responds by itself.
pub(super) fn routes(
    services: Arc<Services>, settings: &DocsSettings,
) -> impl Filter<Extract = (Response,), Error = Infallible> + Clone + use<> {
    let docs = Arc::new(Docs::new(settings));
    let routes = warp::path::full().and(head()).and(warp::body::stream()).then(
        move |path: FullPath, head: Arc<RequestHead>, body| {
            let (services, docs) = (Arc::clone(&services), Arc::clone(&docs));
            async move { respond(&services, &docs, path.as_str(), &head, body).await }
        },
    );
    routes.recover(handle_rejection).unify()
}

/// Responds to a request, and attaches its route for metrics.
async fn respond(services: &Services, docs: &Docs, path: &str, head: &RequestHead, body: impl BodyStream) -> Response {
    let Some((route, id)) = Route::at(path) else { return refuse(Refusal::NotFound, head, body) };
    let mut response = match route.endpoint(&head.method).map(|endpoint| (endpoint, endpoint.scope())) {
        Some((endpoint, Some(scope))) => services.respond(head, body, endpoint, scope, id).await,
        Some((Endpoint::GetDocs, None)) => serve_asset(&docs.page, head, body),
        Some((_, None)) => serve_asset(&docs.openapi, head, body),
        None => refuse(Refusal::MethodNotAllowed(route.methods()), head, body),
    };
    response.extensions_mut().insert(RouteLabel(route));
    response
}

/// Responds with `asset`. Hyper omits the body of the response to a HEAD (D34).
fn serve_asset(asset: &Asset, head: &RequestHead, body: impl BodyStream) -> Response {
    discard(head.body_source(), body);
    asset.response(&head.headers)
}

fn refuse(refusal: Refusal, head: &RequestHead, body: impl BodyStream) -> Response {
    discard(head.body_source(), body);
    refusal.into_response()
}

/// The filter of [`routes`] accepts every request, so a rejection is an internal error.
async fn handle_rejection(rejection: Rejection) -> Result<Response, Infallible> {
    limited!(REJECTIONS[0], error, ?rejection, "unhandled rejection from warp; responding 500");
    Ok(Refusal::Internal.into_response())
}

fn head() -> impl Filter<Extract = (Arc<RequestHead>,), Error = Rejection> + Copy {
    warp::ext::get()
}
