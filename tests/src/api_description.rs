//! Checks every response that a test receives against the API description: path, method, status code, headers and body. So all
//! tests together verify that the description matches the programs.

use crate::http::{HttpClient, HttpRequest, HttpResponse};
use crate::key::RECORDS;
use hyper::header::HeaderName;
use jsonschema::{Draft, Validator};
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use tokio::sync::OnceCell;

/// Response headers that must be described, beside all that begin with `X-`.
const DESCRIBED_HEADERS: [&str; 5] = ["etag", "retry-after", "allow", "idempotent-replayed", "connect-dry-run"];
/// Response headers that need no description.
const IGNORED_HEADERS: [&str; 1] = ["x-content-type-options"];

/// A validator of values against a schema of a description. Of the codes that ISO does not assign it knows those of the tests.
pub fn validator(document: &Value, schema: &Value) -> Validator {
    let mut schema = schema.clone();
    schema["components"] = json!({"schemas": document["components"]["schemas"]});
    let options = jsonschema::options().with_draft(Draft::Draft202012).should_validate_formats(true);
    let options = options.with_format("iso-4217", |code| code != "QQQ");
    let options = options.with_format("iso-3166-1-alpha-2", |code| code != "QQ");
    options.build(&schema).unwrap_or_else(|error| panic!("{error}: {schema}"))
}

/// The description without room for fields that its schemas do not name. Such room is for callers, not for Connect.
pub fn closed(mut value: Value) -> Value {
    if let Value::Array(items) = value {
        return items.into_iter().map(closed).collect();
    }
    for (_, field) in value.as_object_mut().into_iter().flatten() {
        *field = closed(field.take());
    }
    let is_open = value["properties"].is_object() && value["type"] == "object";
    if is_open && value.get("additionalProperties").is_none() {
        value["additionalProperties"] = json!(false);
    }
    value
}

/// The description as it is true of dry runs, whose responses lack the ids of what was not created.
fn of_dry_runs(mut value: Value) -> Value {
    if let Value::Array(items) = value {
        return items.into_iter().map(of_dry_runs).collect();
    }
    for (_, field) in value.as_object_mut().into_iter().flatten() {
        *field = of_dry_runs(field.take());
    }
    let absent = value["x-absent-from-dry-runs"].as_array().cloned().unwrap_or_default();
    if let Some(required) = value.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !absent.contains(name));
    }
    value
}

/// What a part of a description says, which may be a reference.
pub fn resolved<'d>(document: &'d Value, part: &'d Value) -> &'d Value {
    let reference = part["$ref"].as_str().and_then(|reference| reference.strip_prefix('#'));
    reference.map_or(part, |path| document.pointer(path).unwrap_or_else(|| panic!("no {path}")))
}

/// Panics on a response that is not described. Responses of paths outside of the API pass.
pub(crate) async fn assert_described(http: &HttpClient, request: &HttpRequest, response: &HttpResponse) {
    if !request.target.starts_with(RECORDS) {
        return;
    }
    let Some(description) = description(http).await else { return };
    if let Err(fault) = description.check(request, response) {
        let (method, target) = (&request.method, &request.target);
        panic!("the API description lacks {fault}: {method} {target}: {response:?}");
    }
}

/// The description as the first ingest served it. `None` while this ingest does not serve it, which another test checks.
async fn description(http: &HttpClient) -> Option<&'static Description> {
    static DESCRIPTION: OnceCell<Description> = OnceCell::const_new();
    // In a trace that is not sampled: whichever test comes first may count its spans.
    let unsampled = "00-00000000000000000000000000000001-0000000000000001-00";
    let fetch = async || {
        let request = HttpRequest::new("GET", &format!("{RECORDS}/openapi.json"), "");
        let response = http.exchange(&request.with("traceparent", unsampled)).await;
        let document = response.ok().and_then(|response| serde_json::from_slice(&response.body).ok());
        document.map(Description::new).ok_or(())
    };
    DESCRIPTION.get_or_try_init(fetch).await.ok()
}

struct Description {
    document: Value,
    /// The same for dry runs.
    dry_runs: Value,
    /// The validators of bodies by method, path and status.
    validators: Mutex<HashMap<String, Arc<Validator>>>,
}

impl Description {
    fn new(document: Value) -> Self {
        let document = closed(document);
        Self { dry_runs: of_dry_runs(document.clone()), document, validators: Mutex::default() }
    }

    /// Checks that a response is described; the error names the part that is not.
    fn check(&self, request: &HttpRequest, response: &HttpResponse) -> Result<(), String> {
        // A head that is too large is refused before the routes (see Limits).
        if [414, 431].contains(&response.status) && response.body.is_empty() {
            return Ok(());
        }
        let path = request.target.split(['?', '#']).next().unwrap_or_default();
        let mut paths = self.document["paths"].as_object().into_iter().flatten();
        let Some((form, item)) = paths.find(|(form, _)| matches(form, path)) else {
            // A path that is not described gets the response of a record that does not exist, unless HTTP forbids the request.
            let is_described = [(404, json!("not_found")), (400, json!("invalid_request"))]
                .contains(&(response.status, code(response)));
            return (is_described || is_head(request)).then_some(()).ok_or_else(|| "the path".to_owned());
        };
        // HEAD, where it is allowed, gets the response of GET without the body (D34).
        let as_get = (is_head(request) && response.status < 400).then(|| "get".to_owned());
        let method = as_get.unwrap_or_else(|| request.method.to_lowercase());
        if item.get(&method).is_none() && ![400, 405].contains(&response.status) {
            return Err("the method".to_owned());
        }
        // Each operation describes the responses for the path's other methods; what HTTP forbids is 400 for any method.
        let operation = item.get(&method).or_else(|| item.as_object()?.values().next());
        let described = operation.and_then(|it| it["responses"].get(response.status.to_string()));
        let described = resolved(&self.document, described.ok_or("the status")?);
        self.check_headers(described, response)?;
        let place = format!("{method} {form} {}", response.status);
        if is_head(request) { Ok(()) } else { self.check_body(place, described, response) }
    }

    /// Required headers must be present, and headers that are present must be described.
    fn check_headers(&self, described: &Value, response: &HttpResponse) -> Result<(), String> {
        let headers = || described["headers"].as_object().into_iter().flatten();
        for (name, header) in headers() {
            if resolved(&self.document, header)["required"] == true && !response.headers.contains_key(name) {
                return Err(format!("no {name}"));
            }
        }
        let needs_description = |name: &&str| {
            DESCRIBED_HEADERS.contains(name) || (name.starts_with("x-") && !IGNORED_HEADERS.contains(name))
        };
        let mut names = response.headers.keys().map(HeaderName::as_str).filter(needs_description);
        let unknown = names.find(|name| !headers().any(|(known, _)| known.eq_ignore_ascii_case(name)));
        unknown.map_or(Ok(()), |name| Err(format!("the header {name}")))
    }

    /// A body must have a described content type, and fit its schema without a field that this does not name.
    fn check_body(&self, place: String, described: &Value, response: &HttpResponse) -> Result<(), String> {
        let Some(content) = described.get("content") else {
            return response.body.is_empty().then_some(()).ok_or_else(|| "a body".to_owned());
        };
        let kind = response.header("content-type");
        let schema = &content.get(kind).ok_or("the type of the body")?["schema"];
        if kind != "application/json" {
            return Ok(());
        }
        let body = serde_json::from_slice(&response.body).map_err(|error| error.to_string())?;
        let (document, place) = match response.header("connect-dry-run") {
            "" => (&self.document, place),
            _ => (&self.dry_runs, format!("dry run of {place}")),
        };
        let mut validators = self.validators.lock();
        let known = validators.entry(place).or_insert_with(|| Arc::new(validator(document, schema)));
        let known = Arc::clone(known);
        drop(validators);
        known.validate(&body).map_err(|fault| format!("{fault} at {}", fault.instance_path()))
    }
}

fn is_head(request: &HttpRequest) -> bool {
    request.method == "HEAD"
}

fn code(response: &HttpResponse) -> Value {
    serde_json::from_slice(&response.body).map_or(Value::Null, |body: Value| body["code"].clone())
}

/// Whether a path matches a template such as `/clients/{clientId}`.
fn matches(form: &str, path: &str) -> bool {
    let (form, path): (Vec<_>, Vec<_>) = (form.split('/').collect(), path.split('/').collect());
    let fits = |(known, part): (&&str, &&str)| known == part || (known.starts_with('{') && !part.is_empty());
    form.len() == path.len() && form.iter().zip(&path).all(fits)
}
