//! The refusals of an endpoint by status, and the schemas of their bodies. Both are built from the table of refusals.

use super::document::{Content, Example, Header, OrderedMap, Response};
use super::schema::{Schema, array, of_type, reference};
use super::value_schemas::{instant, string, uuid};
use super::{headers, refusals};
use crate::http::route::Endpoint;
use crate::refusal::Refusal;
use serde_json::value::to_raw_value;
use std::collections::BTreeMap;

/// The refusals of an endpoint, by status.
pub(super) fn of_endpoint(endpoint: Endpoint) -> OrderedMap<String, Response> {
    let mut by_status: BTreeMap<u16, Vec<Refusal>> = BTreeMap::new();
    for refusal in refusals::all().into_iter().filter(|refusal| refusals::is_given_by(refusal, endpoint)) {
        by_status.entry(refusal.row().status.as_u16()).or_default().push(refusal);
    }
    by_status.into_iter().map(|(status, refusals)| (status.to_string(), response(&refusals))).collect()
}

/// One response for all refusals of a status. If several refusals have the same code, the last one is used: that of the rules.
fn response(refusals: &[Refusal]) -> Response {
    let mut by_code: OrderedMap<String, &Refusal> = Vec::new();
    for refusal in refusals {
        by_code.retain(|(known, _)| *known != code(refusal));
        by_code.push((code(refusal), refusal));
    }
    let lines = by_code.iter().map(|(code, refusal)| format!("`{code}`: {}", refusals::meaning(refusal)));
    let schemas: Vec<Schema> = by_code.iter().map(|(code, _)| reference(schema_name(code))).collect();
    let schema = match &schemas[..] {
        [one] => one.clone(),
        _ => Schema { one_of: schemas, ..Schema::default() },
    };
    let examples = by_code.iter().map(|(code, refusal)| (code.clone(), example(refusal))).collect();
    Response {
        description: lines.collect::<Vec<_>>().join("\n\n"),
        headers: with_all(refusals),
        content: Some(Content::json(schema, examples)),
        links: Vec::new(),
    }
}

fn example(refusal: &Refusal) -> Example {
    let value = to_raw_value(&refusal.row().body).expect("an error body has string keys");
    Example { summary: refusals::meaning(refusal), value }
}

/// The headers of these refusals. A header is required if all of them have it.
fn with_all(refusals: &[Refusal]) -> OrderedMap<&'static str, Header> {
    let rows: Vec<_> = refusals.iter().map(Refusal::row).collect();
    let header = |description, schema, has: &[bool]| {
        let required = has.iter().all(|has| *has);
        has.contains(&true).then_some(Header { description, required, schema })
    };
    let has: Vec<bool> = rows.iter().map(|row| row.retry_after.is_some()).collect();
    let seconds = Schema { minimum: Some(1.into()), ..of_type("integer") };
    let retry_after = header("Seconds to wait before the next attempt.", seconds, &has);
    let has: Vec<bool> = rows.iter().map(|row| row.allow.is_some()).collect();
    let allow = header("The methods that the path allows.", string(), &has);
    let of_these = [("Retry-After", retry_after), ("Allow", allow)];
    let of_these = of_these.into_iter().filter_map(|(name, header)| Some((name, header?)));
    headers::of_every_response().into_iter().chain(of_these).collect()
}

/// The schemas of all error bodies, one for each code.
pub(super) fn schemas() -> OrderedMap<String, Schema> {
    let mut schemas: OrderedMap<String, Schema> = Vec::new();
    for refusal in refusals::all() {
        let (name, new) = (schema_name(&code(&refusal)), error(&refusal));
        match schemas.iter_mut().find(|(known, _)| *known == name) {
            // A code may have two meanings: `not_found` is for unknown routes and for unknown records.
            Some((_, known)) if known.description != new.description => {
                known.description = format!("{}\n\n{}", known.description, new.description);
            }
            Some(_) => {}
            None => schemas.push((name, new)),
        }
    }
    schemas
}

/// `{statusCode, code, message}` and the ids that go with the code.
fn error(refusal: &Refusal) -> Schema {
    let body = refusal.row().body;
    let only = |name: &str, kind| Schema { constant: Some(body[name].clone()), ..of_type(kind) };
    let mut fields = vec![
        ("statusCode", only("statusCode", "integer")),
        ("code", only("code", "string")),
        ("message", string().about("For people; branch on `code`.")),
    ];
    fields.extend(body.as_object().into_iter().flat_map(|body| body.keys()).filter_map(|name| id(name)));
    Schema { properties: fields, ..of_type("object") }.complete().about(refusals::meaning(refusal))
}

/// A field that accompanies some codes (specification: Errors, Records routes).
fn id(name: &str) -> Option<(&'static str, Schema)> {
    match name {
        "clientId" => Some(("clientId", uuid())),
        "stage" => Some(("stage", reference("Stage"))),
        "updatedAt" => Some(("updatedAt", instant().about("The current version."))),
        "errors" => Some(("errors", array(string()))),
        _ => None,
    }
}

/// The code of a refusal.
pub(crate) fn code(refusal: &Refusal) -> String {
    refusal.row().body["code"].as_str().unwrap_or_default().to_owned()
}

/// The name of a code's schema: `ClientExistsError` of `client_exists`.
pub(crate) fn schema_name(code: &str) -> String {
    let words = code.trim_end_matches("_error").split('_');
    let capital = |word: &str| word[..1].to_uppercase() + &word[1..];
    words.map(capital).chain(["Error".to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_of_a_refusal_has_the_fields_of_its_body() {
        for refusal in refusals::all() {
            let (schema, body) = (error(&refusal), refusal.row().body);
            let mut described: Vec<_> = schema.properties.iter().map(|(name, _)| *name).collect();
            described.sort_unstable();
            assert_eq!(described, body.as_object().unwrap().keys().collect::<Vec<_>>(), "{refusal:?}");
        }
    }

    #[test]
    fn codes_name_their_schemas() {
        assert_eq!(schema_name("client_exists"), "ClientExistsError");
        assert_eq!(schema_name("internal_error"), "InternalError");
        let schemas = schemas();
        let (_, not_found) = schemas.iter().find(|(name, _)| name == "NotFoundError").unwrap();
        assert!(
            not_found.description.contains("No such route")
                && not_found.description.contains("No such record")
        );
    }
}
