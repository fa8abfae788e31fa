//! What is said of each endpoint.

use crate::route::Endpoint;

/// A name, a group, a line and a text for people.
pub(super) struct Words {
    /// `operationId`
    pub(super) id: &'static str,
    /// The group.
    pub(super) tag: &'static str,
    /// In few words.
    pub(super) summary: &'static str,
    /// Markdown.
    pub(super) description: &'static str,
}

pub(super) const EVENTS: &str = "Events";
pub(super) const CLIENTS: &str = "Clients";
pub(super) const LEADS: &str = "Leads and trips";
pub(super) const DESCRIPTION: &str = "Description";
pub(super) const WEBHOOKS: &str = "Webhooks";

/// Groups with what they are about, in the order in which they are described.
pub(super) const TAGS: [(&str, &str); 5] = [
    (
        EVENTS,
        "Send what happened to travellers, in signed batches, and hear what became of each event once it is \
        committed.",
    ),
    (CLIENTS, "Create, look up, read and change clients: the agency's travellers."),
    (LEADS, "Open enquiries, read them and their trips, and change both."),
    (DESCRIPTION, "This description: open to everybody, no credentials."),
    (WEBHOOKS, "What Connect sends to your receiver."),
];

/// The words of an endpoint.
pub(super) const fn of(endpoint: Endpoint) -> Words {
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
    Words { id, tag, summary, description }
}

const SEND_EVENTS: &str = "Validation is all-or-nothing: one envelope at fault refuses the batch with 400, \
the message names every place (`events[3].actor.email: ...`), and nothing is written. Otherwise the answer \
is 200, after the batch is committed, with a result for each event in its order: `accepted`, `duplicate` \
(applied before; with the same ids) or `failed` with an `error`.

What a payload may say depends on its event's type: see [Event types](#types).

An `eventId` has one effect, however often it is sent. Events of a batch apply in their order. A `failed` \
event is not remembered: correct the event and resend it with the same id.

The two credit events also need the scope `credit:write`; without it they are `failed` with \
`insufficient_scope`, and the rest of the batch applies.";

const FIND_CLIENTS: &str = "An exact look-up by the first of `email`, `externalId`, `phone` that is given. \
At least one of the three must be there, else 400 `lookup_field_required`. The answer is an empty list, or a \
list of one.";

const CREATE_CLIENT: &str = "A client whose identity is held by another one is refused, and named. An \
address on the domain of a company account joins that account.";

const GET: &str = "The record, with its version as `ETag`.";

const CHANGE_CLIENT: &str =
    "Changes the fields that are sent and leaves the others. `travelers` replaces the whole roster.";

const FIND_LEADS: &str = "The enquiries that were created with that `externalId`, or sent as \
`payload.externalLeadId`; the newest first.";

const CREATE_LEAD: &str = "Does what an `enquiry.submitted` event does: the client is matched or created, \
the enquiry opens at `inquiry` with an enquiry number, is routed to an advisor, and gets a trip workspace. \
`message` opens its inbox thread.";

const GET_LEAD: &str = "The enquiry, with what its trip shows: brief and stage. Its version is the `ETag`.";

const CHANGE_LEAD: &str = "Stage, owner, follow-up flag and title. A new owner is notified.";

const GET_TRIP: &str = "Brief, stage, owner and where the proposal stands. Its version is the `ETag`.";

const CHANGE_TRIP: &str = "Updates the brief; a change of dates is recorded as a correction. An `itinerary` \
becomes the draft proposal's while the enquiry is at `inquiry` or `follow_up` and nothing was sent; \
otherwise the answer has `itineraryApplied: false` and says why, and the rest of the change is kept. What \
changed, `changeSummary` and `message` are posted to the inbox thread, and the owner is notified.";

const GET_OPENAPI: &str = "For generators, linters and test tools. It changes only with the release that is \
running; its `ETag` tells.";

const GET_DOCS: &str = "The same for people, without scripts.";
