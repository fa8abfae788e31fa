//! The table of all routes, with the rights that each needs.

use crate::access::{Access, SameOrigin};
use crate::app::App;
use crate::context::{Change, Context, View};
use crate::failure::Failure;
use crate::fields::Fields;
use crate::pages::{
    agency, audit, clients, deliveries, keys, leads, members, overview, partners, pipeline, queues, refusals, replays,
    runbook, search, sign_in, signature, usage, webhooks,
};
use crate::request::Request;
use crate::response;
use admin::console::Role;
use hyper::Method;
use std::pin::Pin;
use warp::reply::Response;

/// The response of a handler. It stays on one thread, so it need not be `Send`.
type Responding<'a> = Pin<Box<dyn Future<Output = Result<Response, Failure>> + 'a>>;

/// What serves a route.
#[derive(Clone, Copy)]
pub(crate) enum Handler {
    /// Needs no session, and changes nothing, except that the redirect of an identity provider begins a session: its state
    /// takes the place of [`SameOrigin`].
    Public(for<'a> fn(&'a App, &'a Request, Option<&'a str>) -> Responding<'a>),
    /// A form that begins a session.
    SignIn(for<'a> fn(&'a App, &'a Request, Fields, SameOrigin) -> Responding<'a>),
    /// Shows something.
    Page(for<'a> fn(View<'a>) -> Responding<'a>),
    /// Shows something that the broker has. It gets no connection to the database, so that none is held while the broker does not respond.
    BrokerPage(for<'a> fn(Context<'a>) -> Responding<'a>),
    /// Shows something for a form that is too long for a query. Changes nothing.
    Inspection(for<'a> fn(View<'a>, Fields) -> Responding<'a>),
    /// Changes something.
    Change(for<'a> fn(Change<'a>) -> Responding<'a>),
}

/// The methods of routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Also serves HEAD.
    Get,
    Post,
}

/// A route. `{tenant}` in its pattern is a slug, and `{id}` any other name.
#[derive(Clone, Copy)]
pub(crate) struct Route {
    pub(crate) pattern: &'static str,
    pub(crate) access: Access,
    pub(crate) handler: Handler,
}

impl Route {
    pub(crate) const fn verb(&self) -> Verb {
        match self.handler {
            Handler::Public(_) | Handler::Page(_) | Handler::BrokerPage(_) => Verb::Get,
            Handler::SignIn(_) | Handler::Inspection(_) | Handler::Change(_) => Verb::Post,
        }
    }
}

/// A route with the names in the path of a request.
#[derive(Clone, Copy)]
pub(crate) struct Found<'p> {
    pub(crate) route: Route,
    pub(crate) tenant: Option<&'p str>,
    pub(crate) id: Option<&'p str>,
}

/// A route by the kind of its handler, its pattern, what it needs, and its handler.
macro_rules! route {
    (public $pattern:literal, $page:path) => { route!(Public(app, request, id) $pattern, Access::Public, $page) };
    (sign_in $pattern:literal, $page:path) => {
        route!(SignIn(app, request, form, proof) $pattern, Access::Public, $page)
    };
    (page $pattern:literal, $access:expr, $page:path) => { route!(Page(view) $pattern, $access, $page) };
    (broker_page $pattern:literal, $page:path) => {
        route!(BrokerPage(context) $pattern, Access::Operator, $page)
    };
    (inspection $pattern:literal, $access:expr, $page:path) => {
        route!(Inspection(view, form) $pattern, $access, $page)
    };
    (change $pattern:literal, $access:expr, $change:path) => { route!(Change(change) $pattern, $access, $change) };
    ($kind:ident($($argument:ident),+) $pattern:literal, $access:expr, $handler:path) => {
        Route {
            pattern: $pattern,
            access: $access,
            handler: Handler::$kind(|$($argument),+| Box::pin($handler($($argument),+))),
        }
    };
}

const VIEWER: Access = Access::Tenant(Role::Viewer);
const ADMIN: Access = Access::Tenant(Role::Admin);
/// Routes of a tenant that only operators may use.
const OPERATOR_OF_TENANT: Access = Access::Tenant(Role::Operator);

/// All routes.
pub(crate) static ROUTES: &[Route] = &[
    route!(public "/assets/console.css", response::style),
    route!(public "/assets/console.js", response::script),
    route!(public "/sign-in", sign_in::page),
    route!(public "/sign-in/oidc", sign_in::to_provider),
    route!(public "/sign-in/oidc/callback", sign_in::from_provider),
    route!(public "/sign-in/{id}", sign_in::offer_link),
    route!(sign_in "/sign-in", sign_in::by_link),
    route!(sign_in "/sign-in/proxy", sign_in::by_proxy),
    route!(change "/sign-out", Access::SignedIn, sign_in::out),
    route!(change "/sign-out-everywhere", Access::SignedIn, sign_in::out_everywhere),
    route!(page "/", Access::SignedIn, overview::start),
    route!(page "/find", Access::Operator, search::everywhere),
    route!(page "/audit", Access::Operator, audit::page),
    route!(change "/audit/export", Access::Operator, audit::export),
    route!(page "/runbook", Access::Operator, runbook::page),
    route!(broker_page "/queues", queues::list),
    route!(broker_page "/queues/{id}", queues::dead_letters),
    route!(page "/queues/{id}/requeue", Access::Operator, queues::confirm_requeue),
    route!(change "/queues/{id}/requeue", Access::Operator, queues::requeue),
    route!(broker_page "/queues/{id}/drop", queues::confirm_drop),
    route!(change "/queues/{id}/drop", Access::Operator, queues::drop_all),
    route!(page "/agencies/{tenant}", VIEWER, overview::agency),
    route!(page "/agencies/{tenant}/keys", VIEWER, keys::list),
    route!(page "/agencies/{tenant}/keys/new", ADMIN, keys::offer),
    route!(change "/agencies/{tenant}/keys", ADMIN, keys::create),
    route!(page "/agencies/{tenant}/keys/{id}", VIEWER, keys::page),
    route!(change "/agencies/{tenant}/keys/{id}/scopes", ADMIN, keys::set_scopes),
    route!(change "/agencies/{tenant}/keys/{id}/rotate", ADMIN, keys::rotate),
    route!(change "/agencies/{tenant}/keys/{id}/end-overlap", ADMIN, keys::end_overlap),
    route!(page "/agencies/{tenant}/keys/{id}/revoke", ADMIN, keys::confirm_revocation),
    route!(change "/agencies/{tenant}/keys/{id}/revoke", ADMIN, keys::revoke),
    route!(page "/agencies/{tenant}/refusals", VIEWER, refusals::list),
    route!(page "/agencies/{tenant}/refusals/{id}", VIEWER, refusals::page),
    route!(page "/agencies/{tenant}/signature", VIEWER, signature::page),
    route!(inspection "/agencies/{tenant}/signature", VIEWER, signature::result),
    route!(page "/agencies/{tenant}/webhooks", VIEWER, webhooks::list),
    route!(page "/agencies/{tenant}/webhooks/new", ADMIN, webhooks::changes::offer),
    route!(change "/agencies/{tenant}/webhooks", ADMIN, webhooks::changes::create),
    route!(page "/agencies/{tenant}/webhooks/{id}", VIEWER, webhooks::page),
    route!(page "/agencies/{tenant}/webhooks/{id}/test", VIEWER, webhooks::changes::test_result),
    route!(change "/agencies/{tenant}/webhooks/{id}/test", ADMIN, webhooks::changes::send_test),
    route!(change "/agencies/{tenant}/webhooks/{id}/url", ADMIN, webhooks::changes::set_url),
    route!(change "/agencies/{tenant}/webhooks/{id}/events", ADMIN, webhooks::changes::set_events),
    route!(change "/agencies/{tenant}/webhooks/{id}/pause", ADMIN, webhooks::changes::pause),
    route!(change "/agencies/{tenant}/webhooks/{id}/resume", ADMIN, webhooks::changes::resume),
    route!(change "/agencies/{tenant}/webhooks/{id}/rotate", ADMIN, webhooks::changes::rotate),
    route!(page "/agencies/{tenant}/webhooks/{id}/remove", ADMIN, webhooks::changes::confirm_removal),
    route!(change "/agencies/{tenant}/webhooks/{id}/remove", ADMIN, webhooks::changes::remove),
    route!(page "/agencies/{tenant}/deliveries", VIEWER, deliveries::list),
    route!(page "/agencies/{tenant}/deliveries/replay", ADMIN, replays::confirm),
    route!(change "/agencies/{tenant}/deliveries/replay", ADMIN, replays::start),
    route!(page "/agencies/{tenant}/deliveries/{id}", VIEWER, deliveries::page),
    route!(change "/agencies/{tenant}/deliveries/{id}/replay", ADMIN, deliveries::replay),
    route!(change "/agencies/{tenant}/deliveries/{id}/send-now", ADMIN, deliveries::send_now),
    route!(page "/agencies/{tenant}/replays", VIEWER, replays::list),
    route!(page "/agencies/{tenant}/replays/{id}", VIEWER, replays::page),
    route!(change "/agencies/{tenant}/replays/{id}/stop", ADMIN, replays::stop),
    route!(page "/agencies/{tenant}/settings", VIEWER, agency::page),
    route!(change "/agencies/{tenant}/settings", ADMIN, agency::set_settings),
    route!(change "/agencies/{tenant}/limits", OPERATOR_OF_TENANT, agency::set_limits),
    route!(page "/agencies/{tenant}/usage", VIEWER, usage::page),
    route!(page "/agencies/{tenant}/members", VIEWER, members::page),
    route!(change "/agencies/{tenant}/members", ADMIN, members::add),
    route!(change "/agencies/{tenant}/members/remove", ADMIN, members::deactivate),
    route!(page "/agencies/{tenant}/partners", ADMIN, partners::page),
    route!(change "/agencies/{tenant}/partner-links", ADMIN, partners::create),
    route!(change "/agencies/{tenant}/partner-links/revoke", ADMIN, partners::revoke),
    route!(page "/agencies/{tenant}/audit", ADMIN, audit::page),
    route!(change "/agencies/{tenant}/audit/export", ADMIN, audit::export),
    route!(page "/agencies/{tenant}/find", VIEWER, search::in_tenant),
    route!(page "/agencies/{tenant}/pipeline", VIEWER, pipeline::page),
    route!(page "/agencies/{tenant}/leads/{id}", VIEWER, leads::page),
    route!(page "/agencies/{tenant}/clients/{id}", VIEWER, clients::page),
];

/// The route of a request. Of two that match, the one with fewer names in its pattern stands first in the table.
pub(crate) fn find<'p>(method: &Method, path: &'p str) -> Result<Found<'p>, Failure> {
    let verb = match *method {
        Method::GET | Method::HEAD => Some(Verb::Get),
        Method::POST => Some(Verb::Post),
        _ => None,
    };
    let matching = || {
        ROUTES
            .iter()
            .filter_map(|route| matched(route.pattern, path).map(|(tenant, id)| Found { route: *route, tenant, id }))
    };
    if let Some(found) = matching().find(|found| Some(found.route.verb()) == verb) {
        return Ok(found);
    }
    match matching().map(|found| found.route.verb()).next() {
        None => Err(Failure::NotFound),
        Some(Verb::Get) => Err(Failure::MethodNotAllowed("GET, HEAD")),
        Some(Verb::Post) => Err(Failure::MethodNotAllowed("POST")),
    }
}

/// The names in a path that a pattern matches: tenant and id. Names are letters, digits, `-`, `_` and `.`; others match
/// nothing, so that no handler sees an escape sequence.
fn matched<'p>(pattern: &str, path: &'p str) -> Option<(Option<&'p str>, Option<&'p str>)> {
    let (mut tenant, mut id) = (None, None);
    let mut parts = path.split('/');
    for expected in pattern.split('/') {
        let part = parts.next()?;
        match expected {
            "{tenant}" if is_name(part) => tenant = Some(part),
            "{id}" if is_name(part) => id = Some(part),
            _ if expected == part => {}
            _ => return None,
        }
    }
    parts.next().is_none().then_some((tenant, id))
}

fn is_name(part: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    (1..=200).contains(&part.len()) && part.bytes().all(is_allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(method: &Method, path: &str) -> Option<&'static str> {
        find(method, path).ok().map(|found| found.route.pattern)
    }

    #[test]
    fn a_path_is_found_with_its_names() {
        let found = find(&Method::GET, "/agencies/acme/keys/ck_1").ok().unwrap();
        assert_eq!(found.route.pattern, "/agencies/{tenant}/keys/{id}");
        assert_eq!((found.tenant, found.id), (Some("acme"), Some("ck_1")));
        assert_eq!(pattern(&Method::HEAD, "/"), Some("/"));
        assert_eq!(pattern(&Method::GET, "/agencies/acme/keys/new"), Some("/agencies/{tenant}/keys/new"));
        assert_eq!(
            pattern(&Method::POST, "/agencies/acme/deliveries/replay"),
            Some("/agencies/{tenant}/deliveries/replay")
        );
        for missing in ["", "//", "/agencies", "/agencies//keys", "/agencies/a%2fb", "/agencies/acme/", "/sign-in/a b"]
        {
            assert_eq!(pattern(&Method::GET, missing), None, "{missing}");
        }
    }

    /// The list that the end-to-end tests call each route of, in each role.
    #[test]
    fn the_tests_know_every_route_and_what_it_needs() {
        let listed = include_str!("../../../../tests/vectors/console-routes.json");
        let listed: Vec<serde_json::Value> = serde_json::from_str(listed).unwrap();
        let needed = |access| match access {
            Access::Public => "public",
            Access::SignedIn => "signed in",
            Access::Tenant(role) => role.as_str(),
            Access::Operator => "operator",
        };
        let method = |verb| if verb == Verb::Get { "GET" } else { "POST" };
        let described = |route: &Route| {
            serde_json::json!({
                "method": method(route.verb()),
                "path": route.pattern,
                "role": needed(route.access),
            })
        };
        assert_eq!(listed, ROUTES.iter().map(described).collect::<Vec<_>>());
    }

    #[test]
    fn another_method_is_told_apart_from_an_unknown_path() {
        assert!(matches!(find(&Method::POST, "/queues"), Err(Failure::MethodNotAllowed("GET, HEAD"))));
        assert!(matches!(find(&Method::GET, "/sign-out"), Err(Failure::MethodNotAllowed("POST"))));
        assert!(matches!(find(&Method::DELETE, "/agencies/acme"), Err(Failure::MethodNotAllowed(_))));
        assert!(matches!(find(&Method::GET, "/nothing"), Err(Failure::NotFound)));
    }

    #[test]
    fn every_route_of_a_tenant_needs_a_role_there_and_every_change_a_session() {
        for route in ROUTES {
            let of_tenant = route.pattern.contains("{tenant}");
            assert_eq!(matches!(route.access, Access::Tenant(_)), of_tenant, "{}", route.pattern);
            if !matches!(route.handler, Handler::Public(_) | Handler::SignIn(_)) {
                assert_ne!(route.access, Access::Public, "{}", route.pattern);
            }
            if of_tenant && matches!(route.handler, Handler::Change(_)) {
                assert_ne!(route.access, VIEWER, "a viewer changes nothing: {}", route.pattern);
            }
        }
    }
}
