//! What ingest counts, shown before there is something to count.

use crate::auth::Failure;
use crate::bound::Bound;
use crate::connections::ConnectionRefusal;
use crate::route::{Kind, Route};
use common::metrics::{
    AUTH_FAILURES, HTTP_CONNECTIONS_CLOSED, HTTP_CONNECTIONS_REFUSED, HTTP_REQUESTS, REFUSED, show,
};

/// Shows the counters whose labels are known.
pub(crate) fn show_counters() {
    for failure in Failure::ALL {
        show(AUTH_FAILURES, &[("reason", failure.as_str())]);
    }
    for bound in Bound::ALL {
        show(REFUSED, &[("reason", bound.as_str())]);
    }
    for refusal in ConnectionRefusal::ALL {
        show(HTTP_CONNECTIONS_REFUSED, &[("reason", refusal.as_str())]);
    }
    show(HTTP_CONNECTIONS_CLOSED, &[]);
    for endpoint in Route::ALL.iter().flat_map(|route| route.endpoints()) {
        let success = if endpoint.kind() == Kind::Create { "201" } else { "200" };
        for status in [success, "500", "503"] {
            let (route, method) = (endpoint.route().pattern(), endpoint.method());
            show(HTTP_REQUESTS, &[("route", route), ("method", method), ("status", status)]);
        }
    }
}
