//! The table of routes, and nothing else.

use crate::body::discard;
use crate::error::Refusal;
use crate::handlers::{self, Services};
use crate::observe::RouteLabel;
use crate::request::RequestHead;
use std::convert::Infallible;
use std::sync::Arc;
use warp::path::FullPath;
use warp::reply::Response;
use warp::{Filter, Rejection, Reply};

/// All routes. What none of them takes is refused here as well: nothing is left for warp to answer by itself.
pub fn routes(services: Arc<Services>) -> impl Filter<Extract = (Response,), Error = Infallible> + Clone {
    let post_events =
        warp::post().and(head()).and(warp::body::stream()).then(move |head: Arc<RequestHead>, body| {
            let services = Arc::clone(&services);
            async move { handlers::events::post(&services, &head, body).await }
        });
    let events = warp::path!("api" / "v1" / "crm" / "connect" / "events")
        .and(post_events.or(refuse(Refusal::MethodNotAllowed("POST"))).unify())
        .map(labelled("/api/v1/crm/connect/events"));

    exact_path().and(events).or(refuse(Refusal::NotFound)).unify().recover(fault).unify()
}

/// Paths match as the specification writes them: one with a slash at its end is another.
fn exact_path() -> impl Filter<Extract = (), Error = Rejection> + Copy {
    warp::path::full()
        .and_then(
            async |path: FullPath| {
                if path.as_str().ends_with('/') { Err(warp::reject::not_found()) } else { Ok(()) }
            },
        )
        .untuple_one()
}

/// Answers whatever comes here with `refusal`.
fn refuse(refusal: Refusal) -> impl Filter<Extract = (Response,), Error = Rejection> + Clone {
    warp::any().and(head()).and(warp::body::stream()).map(move |head: Arc<RequestHead>, body| {
        discard(&head, body);
        refusal.clone().into_response()
    })
}

/// No filter of the table rejects what it should answer; one that does is a fault of ours.
async fn fault(rejection: Rejection) -> Result<Response, Infallible> {
    tracing::error!(?rejection, "a request went through the table of routes");
    Ok(Refusal::Internal.into_response())
}

/// The head as it was sent.
fn head() -> impl Filter<Extract = (Arc<RequestHead>,), Error = Rejection> + Copy {
    warp::ext::get()
}

/// Names the route for metrics: by its pattern, so that there are as many names as routes.
fn labelled(pattern: &'static str) -> impl Fn(Response) -> Response + Copy {
    move |mut response| {
        response.extensions_mut().insert(RouteLabel(pattern));
        response
    }
}
