//! The count and the duration of requests, by route, method and status.

use crate::http::route::Route;
use common::metrics::{HTTP_DURATION, HTTP_REQUESTS, Handles};
use hyper::{Method, StatusCode};
use metrics::{Counter, Histogram};
use std::time::Duration;
use strum::EnumCount;

/// The labels of methods. All others share the last one, because callers can invent methods.
const METHODS: [&str; 8] = ["GET", "POST", "PATCH", "PUT", "DELETE", "HEAD", "OPTIONS", "other"];
/// Status codes whose counters are kept; those of others are looked up each time.
const STATUSES: [u16; 16] = [200, 201, 304, 400, 401, 403, 404, 405, 408, 409, 412, 413, 422, 429, 500, 503];
/// The routes, and one more for requests without a route.
const ROUTES: usize = Route::COUNT + 1;

static REQUESTS: Handles<Counter, { ROUTES * METHODS.len() * STATUSES.len() }> = Handles::new();
static DURATIONS: Handles<Histogram, ROUTES> = Handles::new();

/// The metric labels of a request, all from fixed sets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequestLabels {
    route: Option<Route>,
    method: usize,
}

impl RequestLabels {
    /// A request with that method, before its route is known.
    pub(crate) fn of(method: &Method) -> Self {
        let last = METHODS.len() - 1;
        let method = METHODS[..last].iter().position(|known| *known == method.as_str()).unwrap_or(last);
        Self { route: None, method }
    }

    /// Adds the route; `None` when no route matched.
    pub(crate) const fn at(self, route: Option<Route>) -> Self {
        Self { route, ..self }
    }

    /// The label of the route: its pattern.
    pub(crate) const fn route(self) -> &'static str {
        match self.route {
            Some(route) => route.pattern(),
            None => "unknown",
        }
    }

    /// The label of the method.
    pub(crate) const fn method(self) -> &'static str {
        METHODS[self.method]
    }

    pub(crate) fn count(self, status: StatusCode, took: Duration) {
        DURATIONS.get(self.place(), || metrics::histogram!(HTTP_DURATION, "route" => self.route())).record(took);
        match self.number(status) {
            Some(number) => REQUESTS.get(number, || self.counter(status)).increment(1),
            None => self.counter(status).increment(1),
        }
    }

    /// The number of the counter among [`REQUESTS`]; `None` when the status has none there.
    fn number(self, status: StatusCode) -> Option<usize> {
        let status = STATUSES.iter().position(|known| *known == status.as_u16())?;
        Some((self.place() * METHODS.len() + self.method) * STATUSES.len() + status)
    }

    fn place(self) -> usize {
        self.route.map_or(ROUTES - 1, |route| route as usize)
    }

    fn counter(self, status: StatusCode) -> Counter {
        let status = status.as_str().to_owned();
        metrics::counter!(HTTP_REQUESTS, "route" => self.route(), "method" => self.method(), "status" => status)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_with_different_labels_are_counted_apart() {
        let mut numbers = Vec::new();
        for route in Route::ALL.iter().copied().map(Some).chain([None]) {
            for method in 0..METHODS.len() {
                let labels = RequestLabels { route, method };
                numbers.extend(STATUSES.map(|status| labels.number(StatusCode::from_u16(status).unwrap())));
            }
        }
        numbers.sort_unstable();
        let all: Vec<_> = (0..ROUTES * METHODS.len() * STATUSES.len()).map(Some).collect();
        assert_eq!(numbers, all);
        assert_eq!(RequestLabels::of(&Method::GET).number(StatusCode::IM_A_TEAPOT), None);
    }

    #[test]
    fn invented_methods_share_a_label() {
        let label = |method: &Method| RequestLabels::of(method).method();
        assert_eq!(label(&Method::POST), "POST");
        assert_eq!(label(&Method::from_bytes(b"BREW").unwrap()), "other");
        assert_eq!(label(&Method::TRACE), "other");
    }

    #[test]
    fn a_route_is_labeled_with_its_pattern() {
        assert_eq!(RequestLabels::of(&Method::GET).at(Some(Route::Docs)).route(), "/docs");
        assert_eq!(RequestLabels::of(&Method::GET).route(), "unknown");
    }
}
