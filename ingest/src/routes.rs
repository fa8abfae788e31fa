//! From a request to what answers it. Which paths there are says [`Route`], and nothing else: what is served is what is
//! described.

use crate::body::discard;
use crate::docs::{Asset, Docs};
use crate::error::Refusal;
use crate::handlers::resource::Resource;
use crate::handlers::{self, Services};
use crate::observe::RouteLabel;
use crate::request::RequestHead;
use crate::route::Route;
use bytes::Buf;
use common::limited;
use common::log_limit::LogLimit;
use futures_util::Stream;
use hyper::Method;
use std::convert::Infallible;
use std::sync::Arc;
use warp::path::FullPath;
use warp::reply::Response;
use warp::{Filter, Rejection, Reply};

/// Which requests that no route took are logged.
static UNROUTED: LogLimit<1> = LogLimit::new();

/// All routes. What none of them takes is refused here as well: nothing is left for warp to answer by itself.
pub fn routes(services: Arc<Services>) -> impl Filter<Extract = (Response,), Error = Infallible> + Clone {
    let docs = Arc::new(Docs::new());
    let answered = warp::path::full().and(head()).and(warp::body::stream()).then(
        move |path: FullPath, head: Arc<RequestHead>, body| {
            let (services, docs) = (Arc::clone(&services), Arc::clone(&docs));
            async move { answer(&services, &docs, path.as_str(), &head, body).await }
        },
    );
    answered.recover(fault).unify()
}

/// Answers a request, and names its route for metrics: by its pattern, so that there are as many names as routes.
async fn answer<S, B, E>(
    services: &Services,
    docs: &Docs,
    path: &str,
    head: &RequestHead,
    body: S,
) -> Response
where
    S: Stream<Item = Result<B, E>> + Send + Unpin + 'static,
    B: Buf + Send + 'static,
    E: Send + 'static,
{
    let Some((route, id)) = Route::at(path) else { return refuse(Refusal::NotFound, head, body) };
    let records = |resource, body| handlers::records::answer(services, head, body, resource);
    let id = || id.to_owned();
    let mut response = match route {
        Route::Events if head.method == Method::POST => handlers::events::post(services, head, body).await,
        Route::Events => refuse(Refusal::MethodNotAllowed(route.methods()), head, body),
        Route::Clients => records(&Resource::Clients, body).await,
        Route::Client => records(&Resource::Client(id()), body).await,
        Route::Leads => records(&Resource::Leads, body).await,
        Route::Lead => records(&Resource::Lead(id()), body).await,
        Route::Trip => records(&Resource::Trip(id()), body).await,
        Route::OpenApi => show(&docs.openapi, route, head, body),
        Route::Docs => show(&docs.page, route, head, body),
    };
    response.extensions_mut().insert(RouteLabel(route));
    response
}

/// Answers a GET with `asset`.
fn show<S, B, E>(asset: &Asset, route: Route, head: &RequestHead, body: S) -> Response
where
    S: Stream<Item = Result<B, E>> + Send + Unpin + 'static,
    B: Buf + Send + 'static,
    E: Send + 'static,
{
    if head.method != Method::GET {
        return refuse(Refusal::MethodNotAllowed(route.methods()), head, body);
    }
    discard(head, body);
    asset.answer(&head.headers)
}

/// Answers whatever comes here with `refusal`.
fn refuse<S, B, E>(refusal: Refusal, head: &RequestHead, body: S) -> Response
where
    S: Stream<Item = Result<B, E>> + Send + Unpin + 'static,
    B: Buf + Send + 'static,
    E: Send + 'static,
{
    discard(head, body);
    refusal.into_response()
}

/// The filter rejects nothing that it should answer; a request that it does reject is a fault of ours.
async fn fault(rejection: Rejection) -> Result<Response, Infallible> {
    limited!(UNROUTED[0], error, ?rejection, "a request went through the table of routes");
    Ok(Refusal::Internal.into_response())
}

/// The head as it was sent.
fn head() -> impl Filter<Extract = (Arc<RequestHead>,), Error = Rejection> + Copy {
    warp::ext::get()
}
