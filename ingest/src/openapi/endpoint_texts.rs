//! The texts that describe each endpoint.

use crate::http::route::Endpoint;

/// The texts of one endpoint.
pub(super) struct EndpointText {
    /// `operationId`
    pub(super) id: &'static str,
    pub(super) tag: &'static str,
    pub(super) summary: &'static str,
    /// Markdown.
    pub(super) description: &'static str,
}

pub(super) const EVENTS: &str = "Events";
pub(super) const CLIENTS: &str = "Clients";
pub(super) const LEADS: &str = "Leads and trips";
pub(super) const DESCRIPTION: &str = "Description";
pub(super) const WEBHOOKS: &str = "Webhooks";

/// The groups of endpoints and their descriptions, in the order in which they are shown.
pub(super) const TAGS: [(&str, &str); 5] = [
    (
        EVENTS,
        "Send events about travelers in signed batches. The response has a result for each event, after it is \
        committed.",
    ),
    (CLIENTS, "Create, look up, read and change clients: the agency's travelers."),
    (LEADS, "Open, read and change enquiries and their trips."),
    (DESCRIPTION, "This description of the API, which needs no credentials."),
    (WEBHOOKS, "The events that Connect sends to your receiver."),
];

/// The texts of an endpoint.
pub(super) const fn of(endpoint: Endpoint) -> EndpointText {
    let (id, tag, summary, description) = match endpoint {
        Endpoint::SendEvents => ("sendEvents", EVENTS, "Send a batch of events", SEND_EVENTS),
        Endpoint::FindClients => ("findClients", CLIENTS, "Look a client up", FIND_CLIENTS),
        Endpoint::CreateClient => ("createClient", CLIENTS, "Create a client", CREATE_CLIENT),
        Endpoint::GetClient => ("getClient", CLIENTS, "Read a client", GET),
        Endpoint::ChangeClient => ("changeClient", CLIENTS, "Change a client", CHANGE_CLIENT),
        Endpoint::FindLeads => ("findLeads", LEADS, "Look enquiries up", FIND_LEADS),
        Endpoint::CreateLead => ("createLead", LEADS, "Open an enquiry", CREATE_LEAD),
        Endpoint::GetLead => ("getLead", LEADS, "Read an enquiry", GET_LEAD),
        Endpoint::ChangeLead => ("changeLead", LEADS, "Change an enquiry", CHANGE_LEAD),
        Endpoint::GetTrip => ("getTrip", LEADS, "Read the trip of an enquiry", GET_TRIP),
        Endpoint::ChangeTrip => ("changeTrip", LEADS, "Post a customer's changes to a trip", CHANGE_TRIP),
        Endpoint::GetOpenApi => ("getOpenApi", DESCRIPTION, "This description as OpenAPI 3.1", GET_OPENAPI),
        Endpoint::GetDocs => ("getDocs", DESCRIPTION, "This description as a page", GET_DOCS),
    };
    EndpointText { id, tag, summary, description }
}

const SEND_EVENTS: &str =
    "Validation is all-or-nothing: one invalid envelope rejects the batch with 400. The \
message names every place (`events[3].actor.email: ...`), and nothing is written. Otherwise the response is \
200, after the batch is committed, with the results in the order of the events: `accepted`, `duplicate` \
(applied before; with the same ids) or `failed` with an `error`.

The fields of a payload depend on the event's type: see [Event types](#types).

An `eventId` has one effect, however often it is sent. The events of a batch are applied in their order. A \
`failed` event is not remembered: correct the event and resend it with the same id.

The two credit events also need the scope `credit:write`. Without it they are `failed` with \
`insufficient_scope`, and the rest of the batch is applied.";

const FIND_CLIENTS: &str = "An exact look-up by the first of `email`, `externalId`, `phone` that is sent. \
Without any of the three the response is 400 `lookup_field_required`. The response is a list of at most one \
client.";

const CREATE_CLIENT: &str = "If a client with the same identity exists, the request is refused, and the \
response names that client. A client whose email is on the domain of a company account joins that account.";

const GET: &str = "The record, with its version as `ETag`.";

const CHANGE_CLIENT: &str =
    "Changes the fields that are sent, and no others. `travelers` replaces the whole roster.";

const FIND_LEADS: &str = "The enquiries that were created with this `externalId`, or by an event with this \
`payload.externalLeadId`; the newest first.";

const CREATE_LEAD: &str = "Has the effect of an `enquiry.submitted` event: the client is matched or created, \
the enquiry opens at `inquiry` with an enquiry number, is routed to an advisor, and gets a trip workspace. \
`message` opens its inbox thread.";

const GET_LEAD: &str = "The enquiry, with the brief and the stage of its trip. Its version is the `ETag`.";

const CHANGE_LEAD: &str = "Changes stage, owner, follow-up flag or title. A new owner is notified.";

const GET_TRIP: &str = "The trip with its brief, stage, owner and proposal. Its version is the `ETag`.";

const CHANGE_TRIP: &str = "Updates the brief; a change of dates is recorded as a correction. An `itinerary` \
replaces that of the draft proposal while the enquiry is at `inquiry` or `follow_up` and no proposal was \
sent. Otherwise the response has `itineraryApplied: false` with the reason, and the rest of the change is \
applied. The changes, `changeSummary` and `message` are posted to the inbox thread, and the owner is notified.";

const GET_OPENAPI: &str = "For generators, linters and test tools. It changes only when another release is \
started, and its `ETag` changes with it.";

const GET_DOCS: &str = "The same description as a page for people. It needs no scripts.";
