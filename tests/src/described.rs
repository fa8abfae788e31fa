//! Every refusal that any test is given is one that the API's description has: at that path, for that method, with that
//! status and code. So the whole suite holds the description against the programs.

use crate::http::{Answer, Http, Outgoing};
use crate::key::RECORDS;
use serde_json::Value;
use tokio::sync::OnceCell;

/// Panics on a refusal that isn't described. What isn't an answer of the routes to judge (a success, the operator's port,
/// an answer without a body) passes.
pub(crate) async fn check(http: &Http, request: &Outgoing, answer: &Answer) {
    if answer.status < 400 || !request.target.starts_with(RECORDS) {
        return;
    }
    let Ok(body) = serde_json::from_slice::<Value>(&answer.body) else { return };
    let Some(code) = body["code"].as_str() else { return };
    let Some(document) = document(http).await else { return };
    let path = request.target.split(['?', '#']).next().unwrap_or_default();
    let (method, status) = (request.method.to_lowercase(), answer.status.to_string());
    let described =
        match document["paths"].as_object().into_iter().flatten().find(|(known, _)| matches(known, path)) {
            None => (answer.status, code) == (404, "not_found"),
            Some((_, item)) => match item.get(&method) {
                None => (answer.status, code) == (405, "method_not_allowed"),
                Some(operation) => {
                    let content = &operation["responses"][&status]["content"]["application/json"];
                    content["examples"].get(code).is_some()
                }
            },
        };
    assert!(described, "the API's description doesn't have this: {method} {path}: {status} {body}");
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

/// Whether a path is of a described form, such as `/clients/{clientId}`.
fn matches(form: &str, path: &str) -> bool {
    let (form, path): (Vec<_>, Vec<_>) = (form.split('/').collect(), path.split('/').collect());
    let fits = |(known, part): (&&str, &&str)| known == part || (known.starts_with('{') && !part.is_empty());
    form.len() == path.len() && form.iter().zip(&path).all(fits)
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_path_is_of_its_form_and_no_other() {
        assert!(matches("/clients/{clientId}", "/clients/1") && matches("/docs", "/docs"));
        for path in ["/clients", "/clients/", "/clients/1/x", "/leads/1"] {
            assert!(!matches("/clients/{clientId}", path), "{path}");
        }
    }
}
