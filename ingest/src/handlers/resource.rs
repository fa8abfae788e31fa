//! What the records routes address (specification: Records routes).

use crate::route::Route;
use common::model::Scope;
use hyper::Method;

/// A records path; ids as they stand in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resource {
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

/// What a request does with a resource.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// Look up or show.
    Read,
    /// Create or change.
    Write,
}

impl Resource {
    /// The route it is addressed at.
    pub const fn route(&self) -> Route {
        match self {
            Self::Clients => Route::Clients,
            Self::Client(_) => Route::Client,
            Self::Leads => Route::Leads,
            Self::Lead(_) => Route::Lead,
            Self::Trip(_) => Route::Trip,
        }
    }

    /// Whether it is a list, which takes POST, and not a record, which takes PATCH.
    pub const fn is_list(&self) -> bool {
        match self {
            Self::Clients | Self::Leads => true,
            Self::Client(_) | Self::Lead(_) | Self::Trip(_) => false,
        }
    }

    /// What `method` does with it; `None` when it doesn't take that method.
    pub fn act(&self, method: &Method) -> Option<Act> {
        let write = if self.is_list() { Method::POST } else { Method::PATCH };
        match method {
            read if read == Method::GET => Some(Act::Read),
            other => (*other == write).then_some(Act::Write),
        }
    }

    /// The scope that an act on it needs (specification: Scopes).
    pub const fn scope(&self, act: Act) -> Scope {
        match (self, act) {
            (Self::Clients | Self::Client(_), Act::Read) => Scope::ClientsRead,
            (Self::Clients | Self::Client(_), Act::Write) => Scope::ClientsWrite,
            (Self::Leads | Self::Lead(_) | Self::Trip(_), Act::Read) => Scope::LeadsRead,
            (Self::Leads | Self::Lead(_) | Self::Trip(_), Act::Write) => Scope::LeadsWrite,
        }
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
            assert_eq!(resource.act(&Method::GET), Some(Act::Read));
            assert_eq!(resource.act(&write), Some(Act::Write));
            for method in [other, Method::HEAD, Method::PUT, Method::DELETE] {
                assert_eq!(resource.act(&method), None);
            }
            assert_eq!(resource.route().methods(), format!("GET, {write}"));
            assert_eq!(resource.scope(Act::Read).as_str(), read_scope);
            assert_eq!(resource.scope(Act::Write).as_str(), write_scope);
            let described = resource.route().endpoints().iter().map(|endpoint| endpoint.scope());
            let scopes = [Act::Read, Act::Write].map(|act| Some(resource.scope(act)));
            assert_eq!(described.collect::<Vec<_>>(), scopes);
        }
    }
}
