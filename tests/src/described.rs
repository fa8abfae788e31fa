//! Every answer that any test is given is one that the API's description has: at that path, for that method, with that
//! status, that code, and those headers. So the whole suite holds the description against the programs.

use crate::http::{Answer, Http, Outgoing};
use crate::key::RECORDS;
use hyper::header::HeaderName;
use serde_json::{Map, Value};
use tokio::sync::OnceCell;

/// Headers of answers that are described wherever they come, beside all that begin with `X-`.
const TOLD: [&str; 4] = ["etag", "retry-after", "allow", "idempotent-replayed"];
/// Headers that are no matter of the API.
const UNTOLD: [&str; 1] = ["x-content-type-options"];

/// Panics on an answer that isn't described. That to a path outside of the API passes.
pub(crate) async fn check(http: &Http, request: &Outgoing, answer: &Answer) {
    if !request.target.starts_with(RECORDS) {
        return;
    }
    let Some(document) = document(http).await else { return };
    if let Err(fault) = described(document, request, answer) {
        let (method, target) = (&request.method, &request.target);
        panic!("the API's description doesn't have this: {fault}: {method} {target}: {answer:?}");
    }
}

/// The description, as the first ingest served it that was asked. `None` when this one doesn't serve it now, which is for
/// another test to say.
async fn document(http: &Http) -> Option<&'static Value> {
    static DOCUMENT: OnceCell<Value> = OnceCell::const_new();
    let fetch = async || {
        let answer = http.exchange(&Outgoing::new("GET", &format!("{RECORDS}/openapi.json"), "")).await;
        answer.ok().and_then(|answer| serde_json::from_slice(&answer.body).ok()).ok_or(())
    };
    DOCUMENT.get_or_try_init(fetch).await.ok()
}

/// Whether an answer is described; what of it isn't.
fn described(document: &Value, request: &Outgoing, answer: &Answer) -> Result<(), String> {
    // A head that is too large doesn't get as far as the routes (see Limits).
    if [414, 431].contains(&answer.status) && answer.body.is_empty() {
        return Ok(());
    }
    let path = request.target.split(['?', '#']).next().unwrap_or_default();
    let paths = document["paths"].as_object().into_iter().flatten();
    let item = paths.filter_map(|(known, item)| matches(known, path).then(|| item.as_object())?).next();
    let Some(item) = item else {
        // No path of the description: its answer is like that of a record that isn't there, unless HTTP forbids the request.
        let described = [(404, Some("not_found")), (400, Some("invalid_request"))];
        let is_described = described.contains(&(answer.status, code(answer).as_deref()));
        return (is_described || is_head(request)).then_some(()).ok_or_else(|| "the path".to_owned());
    };
    let operation = item.get(&request.method.to_lowercase());
    if operation.is_none() && ![400, 405].contains(&answer.status) {
        return Err("the method".to_owned());
    }
    // Each operation tells what the path's other methods are answered; what HTTP forbids is 400 for any method.
    let operation = operation.or_else(|| item.values().next()).unwrap_or(&Value::Null);
    let response = &operation["responses"][answer.status.to_string()];
    let response = response.as_object().ok_or("the status")?;
    headers(response, answer)?;
    if is_head(request) { Ok(()) } else { body(response, answer) }
}

fn is_head(request: &Outgoing) -> bool {
    request.method == "HEAD"
}

fn code(answer: &Answer) -> Option<String> {
    let body: Value = serde_json::from_slice(&answer.body).ok()?;
    body["code"].as_str().map(str::to_owned)
}

/// A refusal has a code of its status; what else has a body has it of the described type.
fn body(response: &Map<String, Value>, answer: &Answer) -> Result<(), String> {
    let Some(content) = response.get("content").and_then(Value::as_object) else {
        return answer.body.is_empty().then_some(()).ok_or_else(|| "a body".to_owned());
    };
    if !content.contains_key(answer.header("content-type")) {
        return Err("the type of the body".to_owned());
    }
    if answer.status < 400 {
        return Ok(());
    }
    let code = code(answer).ok_or("a refusal without a code")?;
    let is_known = content["application/json"]["examples"].get(&code).is_some();
    is_known.then_some(()).ok_or_else(|| format!("the code {code}"))
}

/// What is required is there, and what is there is described.
fn headers(response: &Map<String, Value>, answer: &Answer) -> Result<(), String> {
    let described = response.get("headers").and_then(Value::as_object);
    let described = || described.into_iter().flatten();
    for (name, header) in described() {
        if header["required"] == true && !answer.headers.contains_key(name) {
            return Err(format!("no {name}"));
        }
    }
    let told = |name: &&str| TOLD.contains(name) || (name.starts_with("x-") && !UNTOLD.contains(name));
    let mut told = answer.headers.keys().map(HeaderName::as_str).filter(told);
    let unknown = told.find(|name| !described().any(|(known, _)| known.eq_ignore_ascii_case(name)));
    unknown.map_or(Ok(()), |name| Err(format!("the header {name}")))
}

/// Whether a path is of a described form, such as `/clients/{clientId}`.
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
    fn a_path_is_of_its_form_and_no_other() {
        assert!(matches("/clients/{clientId}", "/clients/1") && matches("/docs", "/docs"));
        for path in ["/clients", "/clients/", "/clients/1/x", "/leads/1"] {
            assert!(!matches("/clients/{clientId}", path), "{path}");
        }
    }

    fn answer(status: u16, headers: &[(&'static str, &'static str)], body: &'static str) -> Answer {
        let headers = headers
            .iter()
            .map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")));
        Answer { status, headers: headers.collect(), body: body.into() }
    }

    /// What is at fault with the answer to a request for `/clients`.
    fn fault(method: &str, answer: &Answer) -> Option<String> {
        let id = json!({"X-Request-Id": {"required": true}});
        let refusal = |codes: Value, headers: Value| json!({"headers": headers, "content": {"application/json": {"examples": codes}}});
        let document = json!({"paths": {"/clients": {"get": {"responses": {
            "200": {"headers": {"X-Request-Id": {"required": true}, "ETag": {"required": false}},
                "content": {"application/json": {}}},
            "304": {"headers": id},
            "405": refusal(json!({"method_not_allowed": {}}), json!({"Allow": {"required": true}})),
            "503": refusal(json!({"overloaded": {}}), json!({"Retry-After": {"required": true}})),
        }}}}});
        described(&document, &Outgoing::new(method, "/clients?email=a", ""), answer).err()
    }

    const JSON: (&str, &str) = ("content-type", "application/json");
    const ID: (&str, &str) = ("x-request-id", "1");

    #[test]
    fn what_is_described_passes() {
        for (method, answer) in [
            ("GET", answer(200, &[JSON, ID, ("etag", "\"1\"")], "{}")),
            ("GET", answer(200, &[JSON, ID, ("x-content-type-options", "nosniff"), ("date", "now")], "{}")),
            ("GET", answer(304, &[ID], "")),
            ("GET", answer(503, &[JSON, ("retry-after", "1")], r#"{"code": "overloaded"}"#)),
            ("PUT", answer(405, &[JSON, ("allow", "GET")], r#"{"code": "method_not_allowed"}"#)),
            ("HEAD", answer(405, &[JSON, ("allow", "GET")], "")),
            ("GET", answer(431, &[], "")),
        ] {
            assert_eq!(fault(method, &answer), None, "{method} {answer:?}");
        }
    }

    #[test]
    fn what_is_not_described_is_named() {
        let overloaded = r#"{"code": "overloaded"}"#;
        for (method, answer, expected) in [
            ("GET", answer(200, &[JSON], "{}"), "no X-Request-Id"),
            ("GET", answer(200, &[JSON, ID, ("x-cost", "1")], "{}"), "the header x-cost"),
            ("GET", answer(200, &[JSON, ID, ("retry-after", "1")], "{}"), "the header retry-after"),
            ("GET", answer(200, &[ID, ("content-type", "text/html")], "{}"), "the type of the body"),
            ("GET", answer(304, &[ID], "{}"), "a body"),
            ("GET", answer(201, &[JSON, ID], "{}"), "the status"),
            ("GET", answer(503, &[JSON], overloaded), "no Retry-After"),
            ("GET", answer(503, &[JSON, ("retry-after", "1")], ""), "a refusal without a code"),
            ("GET", answer(503, &[JSON, ("retry-after", "1")], r#"{"code": "x"}"#), "the code x"),
            ("PUT", answer(200, &[JSON, ID], "{}"), "the method"),
            ("PUT", answer(405, &[JSON], "{}"), "no Allow"),
        ] {
            assert_eq!(fault(method, &answer).as_deref(), Some(expected), "{method} {answer:?}");
        }
        let document = json!({"paths": {}});
        let unknown = |answer| described(&document, &Outgoing::new("GET", "/x", ""), &answer);
        assert_eq!(unknown(answer(404, &[], r#"{"code": "not_found"}"#)), Ok(()));
        assert_eq!(unknown(answer(404, &[], "")), Err("the path".to_owned()));
    }
}
