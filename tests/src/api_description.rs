//! Checks every response that a test receives against the API description: path, method, status code, error code and
//! headers. So all tests together verify that the description matches the programs.

use crate::http::{HttpClient, HttpRequest, HttpResponse};
use crate::key::RECORDS;
use hyper::header::HeaderName;
use serde_json::{Map, Value};
use tokio::sync::OnceCell;

/// Response headers that must be described, beside all that begin with `X-`.
const DESCRIBED_HEADERS: [&str; 4] = ["etag", "retry-after", "allow", "idempotent-replayed"];
/// Response headers that need no description.
const IGNORED_HEADERS: [&str; 1] = ["x-content-type-options"];

/// Panics on a response that is not described. Responses of paths outside of the API pass.
pub(crate) async fn assert_described(http: &HttpClient, request: &HttpRequest, response: &HttpResponse) {
    if !request.target.starts_with(RECORDS) {
        return;
    }
    let Some(document) = document(http).await else { return };
    if let Err(fault) = described(document, request, response) {
        let (method, target) = (&request.method, &request.target);
        panic!("the API description lacks {fault}: {method} {target}: {response:?}");
    }
}

/// The description as the first ingest served it. `None` while this ingest does not serve it, which another test checks.
async fn document(http: &HttpClient) -> Option<&'static Value> {
    static DOCUMENT: OnceCell<Value> = OnceCell::const_new();
    let fetch = async || {
        let response = http.exchange(&HttpRequest::new("GET", &format!("{RECORDS}/openapi.json"), "")).await;
        response.ok().and_then(|response| serde_json::from_slice(&response.body).ok()).ok_or(())
    };
    DOCUMENT.get_or_try_init(fetch).await.ok()
}

/// Checks that a documented is described; the error names the part that is not.
fn described(document: &Value, request: &HttpRequest, response: &HttpResponse) -> Result<(), String> {
    // A head that is too large is refused before the routes (see Limits).
    if [414, 431].contains(&response.status) && response.body.is_empty() {
        return Ok(());
    }
    let path = request.target.split(['?', '#']).next().unwrap_or_default();
    let paths = document["paths"].as_object().into_iter().flatten();
    let item = paths.filter_map(|(known, item)| matches(known, path).then(|| item.as_object())?).next();
    let Some(item) = item else {
        // A path that is not described gets the response of a record that does not exist, unless HTTP forbids the request.
        let described = [(404, Some("not_found")), (400, Some("invalid_request"))];
        let is_described = described.contains(&(response.status, code(response).as_deref()));
        return (is_described || is_head(request)).then_some(()).ok_or_else(|| "the path".to_owned());
    };
    // HEAD, where it is allowed, gets the response of GET without the body (D34).
    let as_get = (is_head(request) && response.status < 400).then_some("get");
    let operation = item.get(as_get.unwrap_or(&request.method.to_lowercase()));
    if operation.is_none() && ![400, 405].contains(&response.status) {
        return Err("the method".to_owned());
    }
    // Each operation describes the responses for the path's other methods; what HTTP forbids is 400 for any method.
    let operation = operation.or_else(|| item.values().next()).unwrap_or(&Value::Null);
    let documented = &operation["responses"][response.status.to_string()];
    let documented = documented.as_object().ok_or("the status")?;
    headers(documented, response)?;
    if is_head(request) { Ok(()) } else { body(documented, response) }
}

fn is_head(request: &HttpRequest) -> bool {
    request.method == "HEAD"
}

fn code(response: &HttpResponse) -> Option<String> {
    let body: Value = serde_json::from_slice(&response.body).ok()?;
    body["code"].as_str().map(str::to_owned)
}

/// A refusal must have a described code; any other body must have a described content type.
fn body(documented: &Map<String, Value>, response: &HttpResponse) -> Result<(), String> {
    let Some(content) = documented.get("content").and_then(Value::as_object) else {
        return response.body.is_empty().then_some(()).ok_or_else(|| "a body".to_owned());
    };
    if !content.contains_key(response.header("content-type")) {
        return Err("the type of the body".to_owned());
    }
    if response.status < 400 {
        return Ok(());
    }
    let code = code(response).ok_or("a refusal without a code")?;
    let is_known = content["application/json"]["examples"].get(&code).is_some();
    is_known.then_some(()).ok_or_else(|| format!("the code {code}"))
}

/// Required headers must be present, and headers that are present must be described.
fn headers(documented: &Map<String, Value>, response: &HttpResponse) -> Result<(), String> {
    let described = documented.get("headers").and_then(Value::as_object);
    let described = || described.into_iter().flatten();
    for (name, header) in described() {
        if header["required"] == true && !response.headers.contains_key(name) {
            return Err(format!("no {name}"));
        }
    }
    let needs_description = |name: &&str| {
        DESCRIBED_HEADERS.contains(name) || (name.starts_with("x-") && !IGNORED_HEADERS.contains(name))
    };
    let mut names = response.headers.keys().map(HeaderName::as_str).filter(needs_description);
    let unknown = names.find(|name| !described().any(|(known, _)| known.eq_ignore_ascii_case(name)));
    unknown.map_or(Ok(()), |name| Err(format!("the header {name}")))
}

/// Whether a path matches a template such as `/clients/{clientId}`.
fn matches(form: &str, path: &str) -> bool {
    let (form, path): (Vec<_>, Vec<_>) = (form.split('/').collect(), path.split('/').collect());
    let fits = |(known, part): (&&str, &&str)| known == part || (known.starts_with('{') && !part.is_empty());
    form.len() == path.len() && form.iter().zip(&path).all(fits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn matches_a_path_with_its_template_only() {
        assert!(matches("/clients/{clientId}", "/clients/1") && matches("/docs", "/docs"));
        for path in ["/clients", "/clients/", "/clients/1/x", "/leads/1"] {
            assert!(!matches("/clients/{clientId}", path), "{path}");
        }
    }

    fn response(status: u16, headers: &[(&'static str, &'static str)], body: &'static str) -> HttpResponse {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")));
        HttpResponse { status, headers: headers.collect(), body: body.into() }
    }

    /// The part of a documented to a request for `/clients` that is not described.
    fn fault(method: &str, response: &HttpResponse) -> Option<String> {
        let id = json!({"X-Request-Id": {"required": true}});
        let refusal = |codes: Value, headers: Value| json!({"headers": headers, "content": {"application/json": {"examples": codes}}});
        let document = json!({"paths": {"/clients": {"get": {"responses": {
            "200": {"headers": {"X-Request-Id": {"required": true}, "ETag": {"required": false}},
                "content": {"application/json": {}}},
            "304": {"headers": id},
            "405": refusal(json!({"method_not_allowed": {}}), json!({"Allow": {"required": true}})),
            "503": refusal(json!({"overloaded": {}}), json!({"Retry-After": {"required": true}})),
        }}}}});
        described(&document, &HttpRequest::new(method, "/clients?email=a", ""), response).err()
    }

    const JSON: (&str, &str) = ("content-type", "application/json");
    const ID: (&str, &str) = ("x-request-id", "1");

    #[test]
    fn accepts_described_responses() {
        for (method, response) in [
            ("GET", response(200, &[JSON, ID, ("etag", "\"1\"")], "{}")),
            ("GET", response(200, &[JSON, ID, ("x-content-type-options", "nosniff"), ("date", "now")], "{}")),
            ("GET", response(304, &[ID], "")),
            ("GET", response(503, &[JSON, ("retry-after", "1")], r#"{"code": "overloaded"}"#)),
            ("PUT", response(405, &[JSON, ("allow", "GET")], r#"{"code": "method_not_allowed"}"#)),
            ("HEAD", response(405, &[JSON, ("allow", "GET")], "")),
            ("GET", response(431, &[], "")),
        ] {
            assert_eq!(fault(method, &response), None, "{method} {response:?}");
        }
    }

    #[test]
    fn names_the_part_that_is_not_described() {
        let overloaded = r#"{"code": "overloaded"}"#;
        for (method, response, expected) in [
            ("GET", response(200, &[JSON], "{}"), "no X-Request-Id"),
            ("GET", response(200, &[JSON, ID, ("x-cost", "1")], "{}"), "the header x-cost"),
            ("GET", response(200, &[JSON, ID, ("retry-after", "1")], "{}"), "the header retry-after"),
            ("GET", response(200, &[ID, ("content-type", "text/html")], "{}"), "the type of the body"),
            ("GET", response(304, &[ID], "{}"), "a body"),
            ("GET", response(201, &[JSON, ID], "{}"), "the status"),
            ("GET", response(503, &[JSON], overloaded), "no Retry-After"),
            ("GET", response(503, &[JSON, ("retry-after", "1")], ""), "a refusal without a code"),
            ("GET", response(503, &[JSON, ("retry-after", "1")], r#"{"code": "x"}"#), "the code x"),
            ("PUT", response(200, &[JSON, ID], "{}"), "the method"),
            ("PUT", response(405, &[JSON], "{}"), "no Allow"),
        ] {
            assert_eq!(fault(method, &response).as_deref(), Some(expected), "{method} {response:?}");
        }
        let document = json!({"paths": {}});
        let unknown = |response| described(&document, &HttpRequest::new("GET", "/x", ""), &response);
        assert_eq!(unknown(response(404, &[], r#"{"code": "not_found"}"#)), Ok(()));
        assert_eq!(unknown(response(404, &[], "")), Err("the path".to_owned()));
    }
}
