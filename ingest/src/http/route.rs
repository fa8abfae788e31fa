//! The table of routes and endpoints. `server` serves exactly these, `openapi.yaml` describes each of them, and
//! metrics use their names.

use common::model::Scope;
use hyper::Method;
use strum::{EnumCount, VariantArray};

#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumCount, VariantArray)]
pub(crate) enum Route {
    Events,
    Clients,
    Client,
    Leads,
    Lead,
    /// The trip of a lead.
    Trip,
    /// The deliveries of the caller's subscription.
    Webhooks,
    /// The description of the API as OpenAPI.
    OpenApi,
    /// The description of the API as a page.
    Docs,
}

impl Route {
    /// All of them, in the order in which they are described.
    pub(crate) const ALL: &'static [Self] = Self::VARIANTS;

    /// The path, with placeholders in braces.
    pub(crate) const fn pattern(self) -> &'static str {
        match self {
            Self::Events => "/api/v1/crm/connect/events",
            Self::Clients => "/api/v1/crm/connect/clients",
            Self::Client => "/api/v1/crm/connect/clients/{clientId}",
            Self::Leads => "/api/v1/crm/connect/leads",
            Self::Lead => "/api/v1/crm/connect/leads/{leadId}",
            Self::Trip => "/api/v1/crm/connect/leads/{leadId}/trip",
            Self::Webhooks => "/api/v1/crm/connect/webhooks",
            Self::OpenApi => "/api/v1/crm/connect/openapi.json",
            Self::Docs => "/docs",
        }
    }

    /// The route of a path, and the id in it, which is empty where the pattern has none. Paths match exactly: a trailing
    /// slash makes another path.
    pub(crate) fn at(path: &str) -> Option<(Self, &str)> {
        Self::ALL.iter().find_map(|route| Some((*route, id_in(route.pattern(), path)?)))
    }

    /// The endpoints at this path.
    pub(crate) const fn endpoints(self) -> &'static [Endpoint] {
        match self {
            Self::Events => &[Endpoint::SendEvents],
            Self::Clients => &[Endpoint::FindClients, Endpoint::CreateClient],
            Self::Client => &[Endpoint::GetClient, Endpoint::ChangeClient],
            Self::Leads => &[Endpoint::FindLeads, Endpoint::CreateLead],
            Self::Lead => &[Endpoint::GetLead, Endpoint::ChangeLead],
            Self::Trip => &[Endpoint::GetTrip, Endpoint::ChangeTrip],
            Self::Webhooks => &[Endpoint::ReadFeed],
            Self::OpenApi => &[Endpoint::GetOpenApi],
            Self::Docs => &[Endpoint::GetDocs],
        }
    }

    /// The endpoint of a method at this path.
    pub(crate) fn endpoint(self, method: &Method) -> Option<Endpoint> {
        self.endpoints().iter().copied().find(|endpoint| endpoint.methods().contains(&method.as_str()))
    }

    /// The allowed methods, as in an `Allow` header (D4).
    pub(crate) fn methods(self) -> String {
        self.endpoints().iter().flat_map(|endpoint| endpoint.methods()).copied().collect::<Vec<_>>().join(", ")
    }
}

/// The part of a path in place of its pattern's placeholder. `None` when the path does not match the pattern.
fn id_in<'p>(pattern: &str, path: &'p str) -> Option<&'p str> {
    let Some((before, rest)) = pattern.split_once('{') else { return (path == pattern).then_some("") };
    let (_, after) = rest.split_once('}')?;
    let id = path.strip_prefix(before)?.strip_suffix(after)?;
    (!id.is_empty() && !id.contains('/')).then_some(id)
}

/// A method at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endpoint {
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
    /// `GET /webhooks`
    ReadFeed,
    /// `GET /openapi.json`
    GetOpenApi,
    /// `GET /docs`
    GetDocs,
}

/// Groups endpoints whose requests and responses have the same form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndpointKind {
    /// Takes a batch of events.
    Intake,
    LookUp,
    Read,
    Create,
    Change,
    /// Reads a list from a place on.
    Feed,
    /// Describes the API; needs no credentials.
    Description,
}

impl Endpoint {
    pub(crate) const fn kind(self) -> EndpointKind {
        match self {
            Self::SendEvents => EndpointKind::Intake,
            Self::FindClients | Self::FindLeads => EndpointKind::LookUp,
            Self::GetClient | Self::GetLead | Self::GetTrip => EndpointKind::Read,
            Self::CreateClient | Self::CreateLead => EndpointKind::Create,
            Self::ChangeClient | Self::ChangeLead | Self::ChangeTrip => EndpointKind::Change,
            Self::ReadFeed => EndpointKind::Feed,
            Self::GetOpenApi | Self::GetDocs => EndpointKind::Description,
        }
    }

    pub(crate) const fn method(self) -> &'static str {
        self.methods()[0]
    }

    /// Its method, and HEAD where it is supported, which only pages do (D34).
    const fn methods(self) -> &'static [&'static str] {
        match self.kind() {
            EndpointKind::Intake | EndpointKind::Create => &["POST"],
            EndpointKind::LookUp | EndpointKind::Read | EndpointKind::Feed => &["GET"],
            EndpointKind::Change => &["PATCH"],
            EndpointKind::Description => &["GET", "HEAD"],
        }
    }

    /// The scope that a key needs (specification: Scopes); `None` where no key is needed.
    pub(crate) const fn scope(self) -> Option<Scope> {
        match self {
            Self::SendEvents => Some(Scope::EventsIngest),
            Self::FindClients | Self::GetClient => Some(Scope::ClientsRead),
            Self::CreateClient | Self::ChangeClient => Some(Scope::ClientsWrite),
            Self::FindLeads | Self::GetLead | Self::GetTrip => Some(Scope::LeadsRead),
            Self::CreateLead | Self::ChangeLead | Self::ChangeTrip => Some(Scope::LeadsWrite),
            Self::ReadFeed => Some(Scope::WebhooksRead),
            Self::GetOpenApi | Self::GetDocs => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_of_the_route_whose_pattern_it_has() {
        for &route in Route::ALL {
            let (filled, id) = match route.pattern().split_once('{') {
                Some(_) => (route.pattern().replace("{clientId}", "a%2Fb").replace("{leadId}", "a%2Fb"), "a%2Fb"),
                None => (route.pattern().to_owned(), ""),
            };
            assert_eq!(Route::at(&filled), Some((route, id)), "{filled}");
            let cut = &filled[..filled.len() - 1];
            for other in
                [&format!("{filled}/"), &format!("/{filled}"), &format!("{filled}/x/y"), &filled.to_uppercase()]
            {
                assert_eq!(Route::at(other), None, "{other}");
            }
            assert_ne!(Route::at(cut), Some((route, id)), "{cut}");
        }
        let base = "/api/v1/crm/connect";
        for path in ["", "/", "*", base, &format!("{base}/clients//"), &format!("{base}/leads//trip")] {
            assert_eq!(Route::at(path), None, "{path}");
        }
    }
}
