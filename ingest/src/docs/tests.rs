//! Compares the description with the code's own tables, in both directions. The end-to-end tests compare it with what the programs
//! accept and send.

use super::*;
use crate::handlers::{feed, read};
use crate::http::conditions::{IDEMPOTENCY_KEY_MAX, IF_MATCH_MAX};
use crate::http::route::{Endpoint, EndpointKind, Route};
use crate::refusal::Refusal;
use crate::settings::Settings;
use common::event::{BATCH_MAX, InboundType, MAX_DEPTH, OutboundType};
use common::model::{Scope, Stage, text};
use common::settings::Section as _;
use common::signature::{Signed, TOLERANCE_SECONDS, sign};
use common::write::WriteRefusal;
use serde_json::{Value, json};
use std::collections::BTreeSet;

fn document() -> Value {
    serde_json::from_str(OPENAPI).unwrap()
}

/// What a part of the document says, which may be a reference.
#[track_caller]
fn resolved<'d>(document: &'d Value, part: &'d Value) -> &'d Value {
    let Some(reference) = part["$ref"].as_str() else { return part };
    document.pointer(&reference[1..]).unwrap_or_else(|| panic!("no {reference}"))
}

fn names(fields: &Value) -> BTreeSet<&str> {
    fields.as_object().into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

fn items(array: &Value) -> impl Iterator<Item = &Value> {
    array.as_array().into_iter().flatten()
}

/// All endpoints, and what the document says of each.
fn operations(document: &Value) -> impl Iterator<Item = (Endpoint, &Value)> {
    Route::ALL.iter().flat_map(move |route| {
        let path = &document["paths"][route.pattern()];
        route.endpoints().iter().map(move |endpoint| (*endpoint, &path[endpoint.method().to_lowercase()]))
    })
}

fn writes(endpoint: Endpoint) -> bool {
    matches!(endpoint.kind(), EndpointKind::Intake | EndpointKind::Create | EndpointKind::Change)
}

#[test]
fn exactly_the_served_endpoints_are_described() {
    let document = document();
    assert_eq!(names(&document["paths"]), Route::ALL.iter().map(|route| route.pattern()).collect());
    for route in Route::ALL {
        let methods: Vec<_> = route.endpoints().iter().map(|it| it.method().to_lowercase()).collect();
        let described = names(&document["paths"][route.pattern()]);
        assert_eq!(described, methods.iter().map(String::as_str).collect(), "{route:?}");
    }
    for scope in Scope::ALL {
        assert!(document["info"]["description"].as_str().unwrap().contains(&format!("| `{scope}` |")), "{scope}");
    }
}

#[test]
fn each_endpoint_is_described_with_its_credentials_and_headers() {
    let document = document();
    for (endpoint, operation) in operations(&document) {
        let scheme = if endpoint.kind() == EndpointKind::Intake { "ConnectSignatureV1" } else { "ConnectSignatureV2" };
        let needed = |scope: Scope| json!({"ConnectKey": [scope.as_str()], "ConnectTenant": [], scheme: []});
        let expected: Vec<_> = endpoint.scope().map(needed).into_iter().collect();
        assert_eq!(operation["security"], json!(expected), "{endpoint:?}");
        // Swagger UI does not show scopes.
        let said = endpoint.scope().map(|scope| format!("the scope `{scope}`")).unwrap_or_default();
        assert!(operation["description"].as_str().unwrap().contains(&said), "{endpoint:?}");

        let parameters = items(&operation["parameters"]).map(|it| resolved(&document, it));
        let headers: Vec<_> = parameters
            .filter(|it| it["in"] == "header")
            .map(|it| (it["name"].as_str().unwrap(), it["required"] == true))
            .collect();
        let own = match endpoint.kind() {
            EndpointKind::Create => Some(("Idempotency-Key", true)),
            EndpointKind::Change => Some(("If-Match", false)),
            EndpointKind::Read | EndpointKind::Description => Some(("If-None-Match", false)),
            EndpointKind::Intake | EndpointKind::LookUp | EndpointKind::Feed => None,
        };
        let dry_run = writes(endpoint).then_some("Connect-Dry-Run");
        let optional = dry_run.into_iter().chain(["traceparent"]).map(|name| (name, false));
        assert_eq!(headers, own.into_iter().chain(optional).collect::<Vec<_>>(), "{endpoint:?}");

        let (success, returned): (_, &[&str]) = match endpoint.kind() {
            EndpointKind::Intake | EndpointKind::LookUp | EndpointKind::Feed => ("200", &["X-Request-Id"]),
            EndpointKind::Create => ("201", &["X-Request-Id", "ETag", "Idempotent-Replayed"]),
            EndpointKind::Read | EndpointKind::Change | EndpointKind::Description => ("200", &["X-Request-Id", "ETag"]),
        };
        let returned: BTreeSet<&str> = returned.iter().copied().chain(dry_run).collect();
        assert_eq!(names(&operation["responses"][success]["headers"]), returned, "{endpoint:?}");
        let is_cached = matches!(endpoint.kind(), EndpointKind::Read | EndpointKind::Description);
        assert_eq!(operation["responses"]["304"].is_object(), is_cached, "{endpoint:?}");
    }
}

#[test]
fn each_endpoint_is_described_with_exactly_the_query_parameters_that_it_reads() {
    let document = document();
    for (endpoint, operation) in operations(&document) {
        let names: &[&str] = match endpoint.kind() {
            EndpointKind::LookUp if endpoint == Endpoint::FindClients => &read::CLIENT_PARAMETERS,
            EndpointKind::LookUp => &read::LEAD_PARAMETERS,
            EndpointKind::Feed => &feed::PARAMETERS,
            EndpointKind::Intake
            | EndpointKind::Create
            | EndpointKind::Change
            | EndpointKind::Read
            | EndpointKind::Description => &[],
        };
        // A look-up needs one of its parameters: an only one is required.
        let is_required = endpoint.kind() == EndpointKind::LookUp && names.len() == 1;
        let expected = names.iter().map(|name| {
            let number = [feed::AFTER, feed::LIMIT, feed::WAIT].into_iter().find(|(number, ..)| number == name);
            let Some((_, bounds, default)) = number else { return json!([name, is_required, null, null, null]) };
            // The highest number of 64 bits is said by `format`.
            let maximum = Some(bounds.end()).filter(|end| **end < i64::MAX);
            json!([name, is_required, bounds.start(), maximum, default])
        });
        let parameters = items(&operation["parameters"]).map(|it| resolved(&document, it));
        let described = parameters.filter(|it| it["in"] == "query").map(|it| {
            let schema = resolved(&document, &it["schema"]);
            json!([it["name"], it["required"] == true, schema["minimum"], schema["maximum"], schema["default"]])
        });
        assert_eq!(described.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{endpoint:?}");
    }
}

/// The codes of the errors that a response may have.
fn codes<'d>(document: &'d Value, response: &'d Value) -> Vec<&'d str> {
    let schema = &response["content"]["application/json"]["schema"];
    let choices = if schema["oneOf"].is_array() { items(&schema["oneOf"]).collect() } else { vec![schema] };
    let code = |choice| resolved(document, choice)["properties"]["code"]["const"].as_str().unwrap();
    choices.into_iter().map(code).collect()
}

/// Whether an endpoint can refuse with a code.
fn is_given(code: &str, endpoint: Endpoint) -> bool {
    use Endpoint::{ChangeClient, ChangeLead, ChangeTrip, CreateClient, CreateLead, GetTrip};
    let kind = endpoint.kind();
    let is_write = matches!(kind, EndpointKind::Create | EndpointKind::Change);
    match code {
        // Any request can violate HTTP, or come from a peer with too many requests. 405 is for the path's other methods.
        "invalid_request" | "overloaded" | "method_not_allowed" => true,
        "unauthorized"
        | "forbidden"
        | "request_timeout"
        | "payload_too_large"
        | "internal_error"
        | "replay_store_unavailable" => endpoint.scope().is_some(),
        "processing_timeout" => writes(endpoint),
        "quota_exceeded" => is_write,
        "idempotency_key_required" | "idempotency_key_reused" | "identity_required" => kind == EndpointKind::Create,
        "stale_write" => kind == EndpointKind::Change,
        "lookup_field_required" => kind == EndpointKind::LookUp,
        "rate_limited" => matches!(kind, EndpointKind::LookUp | EndpointKind::Read | EndpointKind::Feed),
        // Of `POST /leads` for an unknown `clientId`.
        "not_found" => {
            matches!(kind, EndpointKind::Read | EndpointKind::Change | EndpointKind::Feed) || endpoint == CreateLead
        }
        "invalid_itinerary" => matches!(endpoint, CreateLead | ChangeTrip),
        "client_exists" => endpoint == CreateClient,
        "identity_taken" => matches!(endpoint, CreateClient | ChangeClient),
        "trip_not_open" => matches!(endpoint, GetTrip | ChangeTrip),
        "trip_closed" => endpoint == ChangeTrip,
        "reason_required" | "stage_not_allowed" | "owner_not_member" => endpoint == ChangeLead,
        "lead_create_failed" => endpoint == CreateLead,
        _ => panic!("which endpoints give {code}?"),
    }
}

/// Codes of refusals that only advisor actions get, which are not sent by HTTP.
const OF_ACTIONS: [&str; 3] = ["proposal_not_sent", "booking_ref_conflict", "booking_cancelled"];

/// The codes of all refusals that a caller may get.
fn all_codes() -> BTreeSet<String> {
    let own = crate::refusal::tests::table().into_iter().map(|(_, _, code, _)| code.to_owned());
    // Serde names all variants when it refuses another one.
    let known = serde_json::from_value::<WriteRefusal>(json!({"code": "none"})).unwrap_err().to_string();
    let of_writes = known.split('`').skip(3).step_by(2).map(str::to_owned);
    own.chain(of_writes).filter(|code| !OF_ACTIONS.contains(&code.as_str())).collect()
}

/// The refusal whose body a documented error shows.
fn refusal(error: &Value) -> Refusal {
    let mut fields = error.clone();
    (fields["faults"], fields["retryAfter"]) = (error["message"].clone(), json!(1));
    // The worker refuses as overloaded what the CRM has published, not what ingest has.
    let written = serde_json::from_value(fields).ok().filter(|refusal| *refusal != WriteRefusal::Overloaded);
    written.map(Refusal::Write).unwrap_or_else(|| {
        let mut own = crate::refusal::tests::table().into_iter().map(|(refusal, ..)| refusal);
        own.find(|refusal| refusal.row().body["code"] == error["code"]).unwrap()
    })
}

#[test]
fn each_endpoint_is_described_with_exactly_its_refusals() {
    let (document, all) = (document(), all_codes());
    for (endpoint, operation) in operations(&document) {
        let mut described = BTreeSet::new();
        for (status, response) in operation["responses"].as_object().unwrap() {
            let response = resolved(&document, response);
            if !status.starts_with(['4', '5']) {
                continue;
            }
            let refusals: Vec<_> = codes(&document, response)
                .into_iter()
                .map(|code| {
                    described.insert(code.to_owned());
                    refusal(&error_of(&document, code)["examples"][0]).row()
                })
                .collect();
            assert!(refusals.iter().all(|row| row.status.as_str() == status), "{endpoint:?} {status}");
            let headers = names(&response["headers"]);
            assert!(headers.contains("X-Request-Id"), "{endpoint:?} {status}");
            assert!(headers.contains("Connect-Dry-Run") || !writes(endpoint), "{endpoint:?} {status}");
            for (header, has) in [
                ("Retry-After", refusals.iter().all(|row| row.retry_after.is_some())),
                ("Allow", refusals.iter().all(|row| row.allow.is_some())),
            ] {
                assert_eq!(headers.contains(header), has, "{endpoint:?} {status} {header}");
            }
        }
        let given = all.iter().filter(|code| is_given(code, endpoint)).cloned().collect();
        assert_eq!(described, given, "{endpoint:?}");
    }
}

/// The schema of a code: `ClientExistsError` of `client_exists`.
fn error_of<'d>(document: &'d Value, code: &str) -> &'d Value {
    let words = code.trim_end_matches("_error").split('_');
    let name: String = words.map(|word| word[..1].to_uppercase() + &word[1..]).collect();
    &document["components"]["schemas"][format!("{name}Error")]
}

#[test]
fn each_code_has_a_schema_with_the_fields_and_an_example_of_its_body() {
    let (document, all) = (document(), all_codes());
    for code in &all {
        let (schema, example) = (error_of(&document, code), &error_of(&document, code)["examples"][0]);
        assert_eq!(*example, refusal(example).row().body, "{code}");
        for field in ["statusCode", "code"] {
            assert_eq!(schema["properties"][field]["const"], example[field], "{code}");
        }
        let required = items(&schema["required"]).map(|name| name.as_str().unwrap()).collect();
        assert_eq!((names(&schema["properties"]), &required), (names(example), &names(example)), "{code}");
    }
    let errors = names(&document["components"]["schemas"]).into_iter().filter(|name| name.ends_with("Error"));
    assert_eq!(errors.count(), all.len());
}

fn walk(value: &Value, visit: &mut impl FnMut(&Value)) {
    visit(value);
    value.as_object().into_iter().flatten().for_each(|(_, value)| walk(value, visit));
    items(value).for_each(|value| walk(value, visit));
}

#[test]
fn every_reference_resolves_and_every_id_is_given_once() {
    let document = document();
    let (mut references, mut ids, mut unique) = (0, 0, BTreeSet::new());
    let tags: BTreeSet<_> = items(&document["tags"]).map(|tag| tag["name"].to_string()).collect();
    walk(&document, &mut |value| {
        if value["$ref"].is_string() {
            resolved(&document, value);
            references += 1;
        }
        if let Some(id) = value["operationId"].as_str().filter(|_| value["responses"].is_object()) {
            unique.insert(id.to_owned());
            ids += 1;
            assert!(tags.contains(&value["tags"][0].to_string()), "{id}");
        }
    });
    assert!(references > 100 && ids == unique.len(), "{references} references, {ids} operations");
    assert!(document.get("x-parts").is_none());
}

/// What openapi-python-client and openapi-typescript type completely: a union by a field with one value in each of its schemas,
/// which are whole objects. The first one leaves out schemas that extend others, and the fields beside alternatives.
#[test]
fn each_event_type_has_a_schema_of_the_form_that_generators_type_completely() {
    let document = document();
    let schemas = &document["components"]["schemas"];
    walk(schemas, &mut |schema| {
        let has_alternatives = schema["anyOf"].is_array() || schema["oneOf"].is_array();
        let is_one = !(schema["properties"].is_object() && has_alternatives);
        assert!(is_one && items(&schema["allOf"]).all(|part| part.get("$ref").is_none()), "{schema}");
    });
    let inbound: Vec<&str> = InboundType::ALL.iter().map(|kind| kind.as_str()).collect();
    let outbound = OutboundType::ALL.iter().map(|kind| kind.as_str());
    let outbound: Vec<&str> = outbound.chain(["webhook.test"]).collect();
    assert_eq!(schemas["InboundEvent"]["properties"]["eventType"]["enum"], json!(inbound));
    assert_eq!(names(&document["webhooks"]), outbound.iter().copied().collect());
    for (union, kinds) in [("Event", inbound), ("OutboundEvent", outbound)] {
        let mapping = &schemas[union]["discriminator"]["mapping"];
        assert_eq!(names(mapping), kinds.iter().copied().collect());
        let choices: Vec<_> = items(&schemas[union]["oneOf"]).map(|choice| &choice["$ref"]).collect();
        assert_eq!(choices, kinds.iter().map(|kind| &mapping[kind]).collect::<Vec<_>>());
        for kind in kinds {
            let event = document.pointer(&mapping[kind].as_str().unwrap()[1..]).unwrap();
            assert_eq!(event["properties"]["eventType"], json!({"type": "string", "const": kind}));
            assert!(items(&event["required"]).any(|name| name == "eventType"), "{kind}");
        }
    }
    let stages: Vec<_> = Stage::ALL.iter().map(|stage| stage.as_str()).collect();
    assert_eq!(schemas["Stage"]["enum"], json!(stages));
}

#[test]
fn the_figures_of_the_description_are_those_of_the_code() {
    let document = document();
    let said = document["info"]["description"].as_str().unwrap();
    let body = Settings::VARIABLES.iter().find(|variable| variable.name == "CONNECT_MAX_BODY");
    let (target, v1) = ("/api/v1/crm/connect/clients?email=ana%40example.com", Signed::Body(br#"{"events":[]}"#));
    let v2 = Signed::Request { method: "GET", target, body: b"" };
    for figure in [
        format!("| events in a batch | 1 to {BATCH_MAX} |"),
        format!("| a request body | {}, unless", body.unwrap().default.unwrap()),
        format!("| an itinerary | {} KiB of JSON |", text::ITINERARY_BYTES / 1024),
        format!("| an object of `profilePatch` | {} KiB of JSON |", text::PROFILE_BYTES / 1024),
        format!("clock | {TOLERANCE_SECONDS} seconds, in either direction |"),
        format!("within ±{TOLERANCE_SECONDS} seconds of our clock"),
        format!("more than {TOLERANCE_SECONDS} seconds away from your clock"),
        format!("A body nests at most {MAX_DEPTH} levels"),
        format!("| `{}` |", sign(b"sk_example", 1_777_629_600, v1)),
        format!("| `{}` |", sign(b"sk_example", 1_777_629_600, v2)),
    ] {
        assert!(said.contains(&figure), "{figure}");
    }
    let parameters = &document["components"]["parameters"];
    assert_eq!(parameters["Idempotency-Key"]["schema"]["maxLength"], IDEMPOTENCY_KEY_MAX);
    assert_eq!(parameters["If-Match"]["schema"]["maxLength"], IF_MATCH_MAX);
}
