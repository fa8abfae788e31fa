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
            EndpointKind::Intake | EndpointKind::Feed | EndpointKind::Description => return None,
        };
        Some((access, endpoint.scope()?))
    }
}
