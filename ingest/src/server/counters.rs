//! Registers ingest's counters at 0, so that they are exported before the first event.

use crate::auth::AuthFailure;
use crate::http::route::{EndpointKind, Route};
use crate::refusal::OverloadReason;
use common::http::ConnectionRefusal;
use common::metrics::{AUTH_FAILURES, HTTP_CONNECTIONS_REFUSED, HTTP_REQUESTS, OVERLOADED, register_counter};

/// Registers the counters whose labels are known in advance.
pub(super) fn register_counters() {
    for failure in AuthFailure::ALL {
        register_counter(AUTH_FAILURES, &[("reason", failure.as_str())]);
    }
    for bound in OverloadReason::ALL {
        register_counter(OVERLOADED, &[("reason", bound.as_str())]);
    }
    for refusal in ConnectionRefusal::ALL {
        register_counter(HTTP_CONNECTIONS_REFUSED, &[("reason", refusal.as_str())]);
    }
    for route in Route::ALL {
        for endpoint in route.endpoints() {
            let success = if endpoint.kind() == EndpointKind::Create { "201" } else { "200" };
            for status in [success, "500", "503"] {
                let labels = [("route", route.pattern()), ("method", endpoint.method()), ("status", status)];
                register_counter(HTTP_REQUESTS, &labels);
            }
        }
    }
}
