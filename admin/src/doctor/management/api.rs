//! Requests to the management interface.

use crate::http_client::HttpClient;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use common::settings::ManagementUrl;
use http_body_util::Full;
use hyper::header::{AUTHORIZATION, HeaderValue};
use hyper::{Request, Response, StatusCode};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Longest text of the broker in a message, in characters.
const REASON_CHARS: usize = 200;

/// A node of the cluster. One that does not run has its name only.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Node {
    pub(super) name: String,
    pub(super) running: bool,
    pub(super) mem_alarm: bool,
    pub(super) disk_free_alarm: bool,
    /// The nodes that it does not reach.
    pub(super) partitions: Vec<String>,
}

/// A queue. The state and the policies are missing until the queue's leader has reported them, some seconds after the queue was declared.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct QueueState {
    pub(super) name: String,
    #[serde(rename = "type")]
    kind: String,
    /// The node that orders the messages.
    pub(super) leader: Option<String>,
    /// Nodes with a copy.
    pub(super) members: Vec<String>,
    /// Those of them that run.
    pub(super) online: Vec<String>,
    pub(super) policy: Option<String>,
    pub(super) operator_policy: Option<String>,
    /// What both policies together set: an object.
    pub(super) effective_policy_definition: Value,
    /// What the queue was declared with: an object.
    pub(super) arguments: Value,
}

impl QueueState {
    pub(super) fn is_quorum(&self) -> bool {
        self.kind == "quorum"
    }
}

/// The management interface.
pub(super) struct Api<'a> {
    client: HttpClient,
    url: &'a ManagementUrl,
}

impl<'a> Api<'a> {
    pub(super) const fn new(client: HttpClient, url: &'a ManagementUrl) -> Self {
        Self { client, url }
    }

    /// All nodes of the cluster, also those that do not run.
    pub(super) async fn nodes(&self) -> Result<Vec<Node>, String> {
        let path = "/api/nodes?columns=name,running,mem_alarm,disk_free_alarm,partitions";
        self.get(path).await?.ok_or_else(|| "there is no management interface at this URL (404)".to_owned())
    }

    /// The queue of that full name, if it exists.
    pub(super) async fn queue(&self, virtual_host: &str, name: &str) -> Result<Option<QueueState>, String> {
        let [host, name] = [virtual_host, name].map(|part| utf8_percent_encode(part, NON_ALPHANUMERIC));
        let columns =
            "name,type,leader,members,online,policy,operator_policy,effective_policy_definition,arguments";
        self.get(&format!("/api/queues/{host}/{name}?columns={columns}")).await
    }

    /// The JSON at a path; `None` for 404.
    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, String> {
        let ManagementUrl { base, user, password } = self.url;
        let login = STANDARD.encode(format!("{user}:{}", password.reveal()));
        let mut login =
            HeaderValue::from_str(&format!("Basic {login}")).map_err(|error| error.to_string())?;
        login.set_sensitive(true);
        let request = Request::get(format!("{base}{path}")).header(AUTHORIZATION, login);
        let request = request.body(Full::new(Bytes::new())).map_err(|error| error.to_string())?;
        let response = self.client.send(request).await.map_err(|error| format!("{base}: {error}"))?;
        match response.status() {
            StatusCode::OK => parse(response.body()).map(Some).map_err(|what| format!("{base}: {what}")),
            StatusCode::NOT_FOUND => Ok(None),
            status @ (StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) => {
                Err(format!("{base} refuses the user {user:?}: {status}{}", reason(&response)))
            }
            status => Err(format!("{base} responds {status}{}", reason(&response))),
        }
    }
}

/// A queue that changes has `online` twice, first as it is and then as its leader reported it. A struct would refuse that; of a value the
/// last one counts, which is some seconds old at most.
fn parse<T: DeserializeOwned>(body: &[u8]) -> Result<T, String> {
    let value = serde_json::from_slice::<Value>(body).and_then(serde_json::from_value);
    value.map_err(|error| format!("the response is not that of RabbitMQ's management interface: {error}"))
}

/// What the broker says about a refusal.
fn reason(response: &Response<Bytes>) -> String {
    let body: Value = serde_json::from_slice(response.body()).unwrap_or_default();
    let text = body.get("reason").and_then(Value::as_str).unwrap_or_default();
    let text: String = text.chars().filter(|c| !c.is_control()).take(REASON_CHARS).collect();
    if text.is_empty() { text } else { format!(" ({text})") }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Responses of RabbitMQ 3.10 with three nodes.
    pub(in super::super) fn parsed<T: DeserializeOwned>(body: &str) -> T {
        parse(body.as_bytes()).unwrap_or_else(|error| panic!("{body}: {error}"))
    }

    #[test]
    fn responses_of_a_changing_cluster_can_be_read() {
        // Recorded just after the third node was killed.
        let nodes: Vec<Node> = parsed(
            r#"[{"partitions":[],"mem_alarm":true,"disk_free_alarm":false,"name":"connect-1@localhost","running":true},{"name":"connect-3@localhost","running":false}]"#,
        );
        assert_eq!((nodes[0].running, nodes[0].mem_alarm, nodes[1].running), (true, true, false));
        let queue: QueueState = parsed(
            r#"{"leader":"connect-1@localhost","name":"connect.records","type":"quorum","online":["connect-1@localhost","connect-2@localhost"],"online":["connect-1@localhost","connect-3@localhost","connect-2@localhost"]}"#,
        );
        assert!(queue.is_quorum() && queue.effective_policy_definition.is_null());
        // Before the leader's report, and without a leader.
        let queue: QueueState = parsed(
            r#"{"leader":null,"name":"connect.crm","online":["connect-2@localhost","connect-1@localhost"],"policy":null}"#,
        );
        assert_eq!((queue.leader, queue.policy, queue.online.len()), (None, None, 2));
        assert!(parse::<Vec<Node>>(b"<html>").is_err());
    }
}
