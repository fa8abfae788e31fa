//! What there is to call: the paths, and what each method does at them. [`crate::routes`] serves them and no others,
//! [`crate::openapi`] describes each of them, and metrics name them.

use common::model::Scope;
use common::signature::Scheme;

/// A path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The events route.
    Events,
    /// Clients.
    Clients,
    /// One client.
    Client,
    /// Enquiries.
    Leads,
    /// One enquiry.
    Lead,
    /// The trip of an enquiry.
    Trip,
    /// The description of all of this, for programs.
    OpenApi,
    /// The same, for people.
    Docs,
}

impl Route {
    /// All of them, in the order in which they are described.
    pub const ALL: [Self; 8] = [
        Self::Events,
        Self::Clients,
        Self::Client,
        Self::Leads,
        Self::Lead,
        Self::Trip,
        Self::OpenApi,
        Self::Docs,
    ];

    /// Its path; names in braces stand for what differs.
    pub const fn pattern(self) -> &'static str {
        match self {
            Self::Events => "/api/v1/crm/connect/events",
            Self::Clients => "/api/v1/crm/connect/clients",
            Self::Client => "/api/v1/crm/connect/clients/{clientId}",
            Self::Leads => "/api/v1/crm/connect/leads",
            Self::Lead => "/api/v1/crm/connect/leads/{leadId}",
            Self::Trip => "/api/v1/crm/connect/leads/{leadId}/trip",
            Self::OpenApi => "/api/v1/crm/connect/openapi.json",
            Self::Docs => "/docs",
        }
    }

    /// The route that a path is of, and the id in it, empty where its pattern has none. Paths match as they are written:
    /// one with a slash at its end is another.
    pub fn at(path: &str) -> Option<(Self, &str)> {
        Self::ALL.into_iter().find_map(|route| Some((route, id_in(route.pattern(), path)?)))
    }

    /// What can be done there.
    pub const fn endpoints(self) -> &'static [Endpoint] {
        match self {
            Self::Events => &[Endpoint::SendEvents],
            Self::Clients => &[Endpoint::FindClients, Endpoint::CreateClient],
            Self::Client => &[Endpoint::GetClient, Endpoint::ChangeClient],
            Self::Leads => &[Endpoint::FindLeads, Endpoint::CreateLead],
            Self::Lead => &[Endpoint::GetLead, Endpoint::ChangeLead],
            Self::Trip => &[Endpoint::GetTrip, Endpoint::ChangeTrip],
            Self::OpenApi => &[Endpoint::GetOpenApi],
            Self::Docs => &[Endpoint::GetDocs],
        }
    }

    /// Its methods, as in an `Allow` header.
    pub const fn methods(self) -> &'static str {
        match self {
            Self::Events => "POST",
            Self::Clients | Self::Leads => "GET, POST",
            Self::Client | Self::Lead | Self::Trip => "GET, PATCH",
            Self::OpenApi | Self::Docs => "GET",
        }
    }
}

/// The part of a path that stands where its pattern has a name in braces. `None` when the path isn't of that pattern.
fn id_in<'p>(pattern: &str, path: &'p str) -> Option<&'p str> {
    let Some((before, rest)) = pattern.split_once('{') else { return (path == pattern).then_some("") };
    let (_, after) = rest.split_once('}')?;
    let id = path.strip_prefix(before)?.strip_suffix(after)?;
    (!id.is_empty() && !id.contains('/')).then_some(id)
}

/// A method at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// `POST /events`
    SendEvents,
    /// `GET /clients`
    FindClients,
    /// `POST /clients`
    CreateClient,
    /// `GET /clients/{clientId}`
    GetClient,
    /// `PATCH /clients/{clientId}`
    ChangeClient,
    /// `GET /leads`
    FindLeads,
    /// `POST /leads`
    CreateLead,
    /// `GET /leads/{leadId}`
    GetLead,
    /// `PATCH /leads/{leadId}`
    ChangeLead,
    /// `GET /leads/{leadId}/trip`
    GetTrip,
    /// `PATCH /leads/{leadId}/trip`
    ChangeTrip,
    /// `GET /openapi.json`
    GetOpenApi,
    /// `GET /docs`
    GetDocs,
}

/// What an endpoint is, as far as its requests and answers have something in common with others'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Takes a batch of events.
    Intake,
    /// Looks records up.
    LookUp,
    /// Shows a record.
    Read,
    /// Creates a record.
    Create,
    /// Changes a record.
    Change,
    /// Tells about the API; open to everybody.
    Description,
}

impl Endpoint {
    /// The path it is at.
    pub const fn route(self) -> Route {
        match self {
            Self::SendEvents => Route::Events,
            Self::FindClients | Self::CreateClient => Route::Clients,
            Self::GetClient | Self::ChangeClient => Route::Client,
            Self::FindLeads | Self::CreateLead => Route::Leads,
            Self::GetLead | Self::ChangeLead => Route::Lead,
            Self::GetTrip | Self::ChangeTrip => Route::Trip,
            Self::GetOpenApi => Route::OpenApi,
            Self::GetDocs => Route::Docs,
        }
    }

    /// What it is.
    pub const fn kind(self) -> Kind {
        match self {
            Self::SendEvents => Kind::Intake,
            Self::FindClients | Self::FindLeads => Kind::LookUp,
            Self::GetClient | Self::GetLead | Self::GetTrip => Kind::Read,
            Self::CreateClient | Self::CreateLead => Kind::Create,
            Self::ChangeClient | Self::ChangeLead | Self::ChangeTrip => Kind::Change,
            Self::GetOpenApi | Self::GetDocs => Kind::Description,
        }
    }

    /// Its method.
    pub const fn method(self) -> &'static str {
        match self.kind() {
            Kind::Intake | Kind::Create => "POST",
            Kind::LookUp | Kind::Read | Kind::Description => "GET",
            Kind::Change => "PATCH",
        }
    }

    /// The scope that a key needs (specification: Scopes); `None` where no key is needed.
    pub const fn scope(self) -> Option<Scope> {
        match self {
            Self::SendEvents => Some(Scope::EventsIngest),
            Self::FindClients | Self::GetClient => Some(Scope::ClientsRead),
            Self::CreateClient | Self::ChangeClient => Some(Scope::ClientsWrite),
            Self::FindLeads | Self::GetLead | Self::GetTrip => Some(Scope::LeadsRead),
            Self::CreateLead | Self::ChangeLead | Self::ChangeTrip => Some(Scope::LeadsWrite),
            Self::GetOpenApi | Self::GetDocs => None,
        }
    }

    /// How its requests are signed; `None` where they aren't.
    pub const fn scheme(self) -> Option<Scheme> {
        match self.kind() {
            Kind::Intake => Some(Scheme::V1),
            Kind::LookUp | Kind::Read | Kind::Create | Kind::Change => Some(Scheme::V2),
            Kind::Description => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_route_allows_the_methods_of_its_endpoints() {
        for route in Route::ALL {
            let methods: Vec<_> = route.endpoints().iter().map(|endpoint| endpoint.method()).collect();
            assert_eq!(route.methods(), methods.join(", "));
            assert!(route.endpoints().iter().all(|endpoint| endpoint.route() == route));
        }
    }

    #[test]
    fn a_path_is_of_the_route_whose_pattern_it_has() {
        for route in Route::ALL {
            let (filled, id) = match route.pattern().split_once('{') {
                Some(_) => {
                    (route.pattern().replace("{clientId}", "a%2Fb").replace("{leadId}", "a%2Fb"), "a%2Fb")
                }
                None => (route.pattern().to_owned(), ""),
            };
            assert_eq!(Route::at(&filled), Some((route, id)), "{filled}");
            let cut = &filled[..filled.len() - 1];
            for other in [
                &format!("{filled}/"),
                &format!("/{filled}"),
                &format!("{filled}/x/y"),
                &filled.to_uppercase(),
            ] {
                assert_eq!(Route::at(other), None, "{other}");
            }
            assert_ne!(Route::at(cut), Some((route, id)), "{cut}");
        }
        let base = "/api/v1/crm/connect";
        for path in ["", "/", "*", base, &format!("{base}/clients//"), &format!("{base}/leads//trip")] {
            assert_eq!(Route::at(path), None, "{path}");
        }
    }

    /// A new route or endpoint doesn't compile until it is counted here, and then has to be in the lists above.
    #[test]
    fn no_route_and_no_endpoint_is_forgotten() {
        let place = |route| match route {
            Route::Events => 0,
            Route::Clients => 1,
            Route::Client => 2,
            Route::Leads => 3,
            Route::Lead => 4,
            Route::Trip => 5,
            Route::OpenApi => 6,
            Route::Docs => 7,
        };
        assert!(Route::ALL.into_iter().map(place).eq(0..8));
        let place = |endpoint: &Endpoint| match endpoint {
            Endpoint::SendEvents => 0,
            Endpoint::FindClients => 1,
            Endpoint::CreateClient => 2,
            Endpoint::GetClient => 3,
            Endpoint::ChangeClient => 4,
            Endpoint::FindLeads => 5,
            Endpoint::CreateLead => 6,
            Endpoint::GetLead => 7,
            Endpoint::ChangeLead => 8,
            Endpoint::GetTrip => 9,
            Endpoint::ChangeTrip => 10,
            Endpoint::GetOpenApi => 11,
            Endpoint::GetDocs => 12,
        };
        assert!(Route::ALL.iter().flat_map(|route| route.endpoints()).map(place).eq(0..13));
    }
}
