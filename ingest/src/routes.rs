//! The table of routes, and nothing else.

use crate::body::discard;
use crate::docs::{Asset, Docs};
use crate::error::Refusal;
use crate::handlers::resource::Resource;
use crate::handlers::{self, Services};
use crate::observe::RouteLabel;
use crate::request::RequestHead;
use crate::route::Route;
use std::convert::Infallible;
use std::sync::Arc;
use warp::path::FullPath;
use warp::reply::Response;
use warp::{Filter, Rejection, Reply};

/// All routes. What none of them takes is refused here as well: nothing is left for warp to answer by itself.
pub fn routes(services: Arc<Services>) -> impl Filter<Extract = (Response,), Error = Infallible> + Clone {
    let for_events = Arc::clone(&services);
    let post_events =
        warp::post().and(head()).and(warp::body::stream()).then(move |head: Arc<RequestHead>, body| {
            let services = Arc::clone(&for_events);
            async move { handlers::events::post(&services, &head, body).await }
        });
    let events = warp::path!("api" / "v1" / "crm" / "connect" / "events")
        .and(post_events.or(refuse(Refusal::MethodNotAllowed(Route::Events.methods()))).unify())
        .map(labelled(Route::Events));

    let records = resource().and(head()).and(warp::body::stream()).then(
        move |resource: Resource, head: Arc<RequestHead>, body| {
            let services = Arc::clone(&services);
            async move {
                let answer = handlers::records::answer(&services, &head, body, &resource).await;
                labelled(resource.route())(answer)
            }
        },
    );

    let Docs { openapi, page } = Docs::new();
    let openapi = warp::path!("api" / "v1" / "crm" / "connect" / "openapi.json")
        .and(show(openapi, Route::OpenApi))
        .map(labelled(Route::OpenApi));
    let page = warp::path!("docs").and(show(page, Route::Docs)).map(labelled(Route::Docs));

    // Boxed: the type of so many alternatives is more than the compiler takes.
    let known = events.or(records).unify().or(openapi).unify().or(page).unify().boxed();
    exact_path().and(known).or(refuse(Refusal::NotFound)).unify().recover(fault).unify()
}

/// What the paths of the records API address.
fn resource() -> impl Filter<Extract = (Resource,), Error = Rejection> + Copy {
    let below = warp::path!("api" / "v1" / "crm" / "connect" / ..);
    let clients = warp::path!("clients").map(|| Resource::Clients);
    let client = warp::path!("clients" / String).map(Resource::Client);
    let leads = warp::path!("leads").map(|| Resource::Leads);
    let lead = warp::path!("leads" / String).map(Resource::Lead);
    let trip = warp::path!("leads" / String / "trip").map(Resource::Trip);
    below.and(clients.or(client).unify().or(leads).unify().or(lead).unify().or(trip).unify())
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

/// Answers a GET with `asset`.
fn show(asset: Asset, route: Route) -> impl Filter<Extract = (Response,), Error = Rejection> + Clone {
    let asset = Arc::new(asset);
    let shown = warp::get().and(head()).and(warp::body::stream()).map(move |head: Arc<RequestHead>, body| {
        discard(&head, body);
        asset.answer(&head.headers)
    });
    shown.or(refuse(Refusal::MethodNotAllowed(route.methods()))).unify()
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
fn labelled(route: Route) -> impl Fn(Response) -> Response + Copy {
    move |mut response| {
        response.extensions_mut().insert(RouteLabel(route));
        response
    }
}
