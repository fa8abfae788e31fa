//! The resources of the records routes (specification: Records routes).

use crate::http::route::{EndpointKind, Route};
use common::model::Scope;
use hyper::Method;

/// A resource of the records API, with ids as in the path, not validated yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Resource {
    /// `/clients`
    Clients,
    /// `/clients/{clientId}`
    Client(String),
    /// `/leads`
    Leads,
    /// `/leads/{leadId}`
    Lead(String),
    /// `/leads/{leadId}/trip`
    Trip(String),
}

/// How a request uses a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

impl Resource {
    pub(crate) const fn route(&self) -> Route {
        match self {
            Self::Clients => Route::Clients,
            Self::Client(_) => Route::Client,
            Self::Leads => Route::Leads,
            Self::Lead(_) => Route::Lead,
            Self::Trip(_) => Route::Trip,
        }
    }

    /// Whether it is a list, which takes POST, and not a record, which takes PATCH.
    pub(crate) const fn is_list(&self) -> bool {
        match self {
            Self::Clients | Self::Leads => true,
            Self::Client(_) | Self::Lead(_) | Self::Trip(_) => false,
        }
    }

    /// The access by `method`, and the scope that it needs; `None` when the resource does not support the method.
    pub(crate) fn access(&self, method: &Method) -> Option<(Access, Scope)> {
        let endpoint = self.route().endpoint(method)?;
        let access = match endpoint.kind() {
            EndpointKind::LookUp | EndpointKind::Read => Access::Read,
            EndpointKind::Create | EndpointKind::Change => Access::Write,
            EndpointKind::Intake | EndpointKind::Description => return None,
        };
        Some((access, endpoint.scope()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Specification: Records routes.
    #[test]
    fn every_route_has_its_methods_and_scopes() {
        let id = || "1".to_owned();
        for (resource, write, other, read_scope, write_scope) in [
            (Resource::Clients, Method::POST, Method::PATCH, "clients:read", "clients:write"),
            (Resource::Client(id()), Method::PATCH, Method::POST, "clients:read", "clients:write"),
            (Resource::Leads, Method::POST, Method::PATCH, "leads:read", "leads:write"),
            (Resource::Lead(id()), Method::PATCH, Method::POST, "leads:read", "leads:write"),
            (Resource::Trip(id()), Method::PATCH, Method::POST, "leads:read", "leads:write"),
        ] {
            let access =
                |method: &Method| resource.access(method).map(|(access, scope)| (access, scope.as_str()));
            assert_eq!(access(&Method::GET), Some((Access::Read, read_scope)));
            assert_eq!(access(&write), Some((Access::Write, write_scope)));
            for method in [other, Method::HEAD, Method::PUT, Method::DELETE] {
                assert_eq!(access(&method), None);
            }
            assert_eq!(resource.route().methods(), format!("GET, {write}"));
        }
    }
}
