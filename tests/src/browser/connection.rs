//! Commands and events of the Chrome DevTools Protocol: JSON values, each followed by a NUL byte.

use crate::MAX_WAIT;
use parking_lot::Mutex;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::oneshot;
use tokio::time::timeout;

#[derive(Debug)]
pub(super) struct Connection {
    commands: tokio::sync::Mutex<ChildStdin>,
    last_id: AtomicU64,
    shared: Arc<Mutex<Shared>>,
}

/// What has been received.
#[derive(Debug, Default)]
struct Shared {
    waiting: HashMap<u64, oneshot::Sender<Value>>,
    sessions: HashMap<String, SessionEvents>,
}

/// What a page has reported so far.
#[derive(Clone, Debug, Default)]
pub(super) struct SessionEvents {
    /// Number of documents that were loaded.
    pub(super) loads: usize,
    /// What the browser complains about, in order.
    pub(super) complaints: Vec<String>,
}

impl Connection {
    pub(super) fn new(commands: ChildStdin, answers: ChildStdout) -> Arc<Self> {
        let shared = Arc::new(Mutex::new(Shared::default()));
        tokio::spawn(receive(answers, Arc::clone(&shared)));
        let commands = tokio::sync::Mutex::new(commands);
        Arc::new(Self { commands, last_id: AtomicU64::new(0), shared })
    }

    /// The result of a command, which must succeed.
    pub(super) async fn call(&self, session: Option<&str>, method: &str, params: Value) -> Value {
        self.try_call(session, method, params).await.unwrap_or_else(|error| panic!("{method}: {error}"))
    }

    /// The result of a command, or the browser's error.
    pub(super) async fn try_call(&self, session: Option<&str>, method: &str, params: Value) -> Result<Value, String> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let (sender, receiver) = oneshot::channel();
        self.shared.lock().waiting.insert(id, sender);
        let mut command = json!({"id": id, "method": method, "params": params});
        if let Some(session) = session {
            command["sessionId"] = json!(session);
        }
        let mut bytes = command.to_string().into_bytes();
        bytes.push(0);
        self.commands.lock().await.write_all(&bytes).await.map_err(|error| error.to_string())?;
        let answer = timeout(MAX_WAIT, receiver).await.map_err(|_| "no answer".to_owned())?;
        let mut answer = answer.map_err(|_| "the browser has ended".to_owned())?;
        match answer.get("error") {
            Some(error) => Err(error.to_string()),
            None => Ok(answer["result"].take()),
        }
    }

    /// What a page has reported so far.
    pub(super) fn events(&self, session: &str) -> SessionEvents {
        self.shared.lock().sessions.get(session).cloned().unwrap_or_default()
    }

    /// The complaints since the last call.
    pub(super) fn take_complaints(&self, session: &str) -> Vec<String> {
        let mut shared = self.shared.lock();
        shared.sessions.get_mut(session).map(|events| std::mem::take(&mut events.complaints)).unwrap_or_default()
    }
}

async fn receive(answers: ChildStdout, shared: Arc<Mutex<Shared>>) {
    let mut answers = BufReader::new(answers);
    let mut bytes = Vec::new();
    while answers.read_until(0, &mut bytes).await.is_ok_and(|read| read > 0) {
        bytes.pop();
        if let Ok(message) = serde_json::from_slice::<Value>(&bytes) {
            shared.lock().take(message);
        }
        bytes.clear();
    }
    // Whoever waits learns that the browser has ended.
    shared.lock().waiting.clear();
}

impl Shared {
    fn take(&mut self, message: Value) {
        if let Some(id) = message["id"].as_u64() {
            if let Some(waiting) = self.waiting.remove(&id) {
                drop(waiting.send(message));
            }
            return;
        }
        let session = message["sessionId"].as_str().unwrap_or_default();
        let events = self.sessions.entry(session.to_owned()).or_default();
        if message["method"] == "Page.loadEventFired" {
            events.loads += 1;
        }
        events.complaints.extend(complaint(&message));
    }
}

/// What an event complains about: an error or warning of the console, an error of a script, or an entry of the browser's
/// own log, such as a violation of the content security policy.
fn complaint(event: &Value) -> Option<String> {
    let params = &event["params"];
    match event["method"].as_str()? {
        "Runtime.consoleAPICalled" if ["error", "warning", "assert"].contains(&params["type"].as_str()?) => {
            Some(format!("console: {}", params["args"]))
        }
        "Runtime.exceptionThrown" => Some(format!("script: {}", params["exceptionDetails"])),
        "Log.entryAdded" if ["error", "warning"].contains(&params["entry"]["level"].as_str()?) => {
            Some(format!("log: {} {}", params["entry"]["text"], params["entry"]["url"]))
        }
        _ => None,
    }
}
