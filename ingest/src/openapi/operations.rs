//! Endpoints as operations of the document.

use super::document::{Content, Operation, OrderedMap, Parameter, PathItem, RequestBody, Response, Sample};
use super::schema::{Schema, array, object, reference};
use super::value_schemas::{NOT_BLANK, string, uuid};
use super::{curl, endpoint_texts, error_responses, examples, security};
use crate::http::route::{Endpoint, EndpointKind, Route};
use serde_json::{Value, json};

/// All routes with their endpoints.
pub(super) fn paths() -> OrderedMap<&'static str, PathItem> {
    let item = |route: Route| PathItem {
        operations: route
            .endpoints()
            .iter()
            .map(|it| (it.method().to_ascii_lowercase(), operation(*it)))
            .collect(),
    };
    Route::ALL.into_iter().map(|route| (route.pattern(), item(route))).collect()
}

fn operation(endpoint: Endpoint) -> Operation {
    let words = endpoint_texts::of(endpoint);
    let mut responses = successes(endpoint);
    responses.extend(error_responses::of_endpoint(endpoint));
    Operation {
        operation_id: words.id.to_owned(),
        tags: [words.tag],
        summary: words.summary,
        description: words.description.to_owned(),
        security: security::required(endpoint),
        parameters: parameters(endpoint),
        request_body: request_body(endpoint),
        responses,
        samples: vec![Sample { lang: "Shell", label: "curl", source: curl::sample(endpoint) }],
        delivery: None,
    }
}

/// The schema of an endpoint's body.
pub(crate) const fn body_name(endpoint: Endpoint) -> Option<&'static str> {
    match endpoint {
        Endpoint::SendEvents => Some("EventBatch"),
        Endpoint::CreateClient => Some("NewClient"),
        Endpoint::ChangeClient => Some("ClientChange"),
        Endpoint::CreateLead => Some("NewLead"),
        Endpoint::ChangeLead => Some("LeadChange"),
        Endpoint::ChangeTrip => Some("TripChange"),
        Endpoint::FindClients
        | Endpoint::GetClient
        | Endpoint::FindLeads
        | Endpoint::GetLead
        | Endpoint::GetTrip
        | Endpoint::GetOpenApi
        | Endpoint::GetDocs => None,
    }
}

fn request_body(endpoint: Endpoint) -> Option<RequestBody> {
    let schema = reference(body_name(endpoint)?);
    Some(RequestBody { required: true, content: Content::json(schema, examples::of_request(endpoint)) })
}

/// The schema of the body of an endpoint's successful response.
fn shown(endpoint: Endpoint) -> Schema {
    let record = |name| object([("data", reference(name))]).complete();
    let records = |name| object([("data", array(reference(name)))]).complete();
    match endpoint {
        Endpoint::SendEvents => reference("BatchResult"),
        Endpoint::FindClients => {
            let found = Schema { max_items: Some(1), ..array(reference("Client")) };
            object([("data", found)]).complete()
        }
        Endpoint::CreateClient | Endpoint::GetClient | Endpoint::ChangeClient => record("Client"),
        Endpoint::FindLeads => records("Lead"),
        Endpoint::CreateLead | Endpoint::GetLead | Endpoint::ChangeLead => record("Lead"),
        Endpoint::GetTrip | Endpoint::ChangeTrip => record("Trip"),
        Endpoint::GetOpenApi => Schema { types: vec!["object"], ..Schema::default() },
        Endpoint::GetDocs => string(),
    }
}

fn successes(endpoint: Endpoint) -> OrderedMap<String, Response> {
    let status = if endpoint.kind() == EndpointKind::Create { "201" } else { "200" };
    let content = if endpoint == Endpoint::GetDocs {
        Content::of("text/html; charset=utf-8", shown(endpoint), Vec::new())
    } else {
        Content::json(shown(endpoint), examples::of_response(endpoint))
    };
    let description = match endpoint.kind() {
        EndpointKind::Intake => "A result for each event.",
        EndpointKind::LookUp => "The records that were found.",
        EndpointKind::Read => "The record.",
        EndpointKind::Create => {
            "The record that was created, now or by an earlier request with the same key and body."
        }
        EndpointKind::Change => "The record after the change.",
        EndpointKind::Description => "The description.",
    };
    let success = Response {
        description: description.to_owned(),
        headers: super::headers::of_success(endpoint),
        content: Some(content),
        links: links(endpoint),
    };
    let mut successes = vec![(status.to_owned(), success)];
    if matches!(endpoint.kind(), EndpointKind::Read | EndpointKind::Description) {
        let description = "The current version is one that `If-None-Match` names.".to_owned();
        let headers = super::headers::of_success(endpoint);
        successes.push(("304".to_owned(), Response { description, headers, ..Response::default() }));
    }
    successes
}

/// Links from a created record to the operations on it.
fn links(endpoint: Endpoint) -> OrderedMap<&'static str, Value> {
    let link =
        |id: &str, parameter: &str, at: &str| json!({"operationId": id, "parameters": {parameter: at}});
    let created = "$response.body#/data/id";
    match endpoint {
        Endpoint::CreateClient => {
            vec![
                ("read", link("getClient", "clientId", created)),
                ("change", link("changeClient", "clientId", created)),
            ]
        }
        Endpoint::CreateLead => vec![
            ("read", link("getLead", "leadId", created)),
            ("change", link("changeLead", "leadId", created)),
            ("readTrip", link("getTrip", "leadId", created)),
            ("changeTrip", link("changeTrip", "leadId", created)),
        ],
        Endpoint::SendEvents
        | Endpoint::FindClients
        | Endpoint::GetClient
        | Endpoint::ChangeClient
        | Endpoint::FindLeads
        | Endpoint::GetLead
        | Endpoint::ChangeLead
        | Endpoint::GetTrip
        | Endpoint::ChangeTrip
        | Endpoint::GetOpenApi
        | Endpoint::GetDocs => Vec::new(),
    }
}

fn parameters(endpoint: Endpoint) -> Vec<Parameter> {
    let mut parameters = Vec::new();
    match endpoint {
        Endpoint::GetClient | Endpoint::ChangeClient => parameters.push(id_in_path("clientId")),
        Endpoint::GetLead | Endpoint::ChangeLead | Endpoint::GetTrip | Endpoint::ChangeTrip => {
            parameters.push(id_in_path("leadId"));
        }
        Endpoint::FindClients => parameters.extend([
            query("email", "Compared case-insensitively.", string(), false, "ana@example.com"),
            query("externalId", "Your own id for the person.", string(), false, "crm-4711"),
            query("phone", "Compared by its digits.", string(), false, "+49 30 123456"),
        ]),
        Endpoint::FindLeads => {
            let schema = Schema { pattern: Some(NOT_BLANK), ..string() };
            parameters.push(query("externalId", "Your own id for the enquiry.", schema, true, "order-4711"));
        }
        Endpoint::SendEvents
        | Endpoint::CreateClient
        | Endpoint::CreateLead
        | Endpoint::GetOpenApi
        | Endpoint::GetDocs => {}
    }
    parameters.extend(super::headers::of_request(endpoint));
    parameters
}

fn id_in_path(name: &'static str) -> Parameter {
    let example = examples::ID;
    let description = "The id of the record. A malformed id gets 404, like an unknown one.";
    Parameter { name, place: "path", required: true, description, schema: uuid(), example: Some(example) }
}

fn query(
    name: &'static str,
    description: &'static str,
    schema: Schema,
    required: bool,
    example: &'static str,
) -> Parameter {
    Parameter { name, place: "query", required, description, schema, example: Some(example) }
}
