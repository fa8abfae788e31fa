//! API keys, and requests signed with them.

use crate::http::HttpRequest;
use crate::world::slug;
use bytes::Bytes;
use common::signature::{Signed, sign};
use parking_lot::Mutex;
use serde_json::Value;
use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::LazyLock;

/// The path of the events route.
pub const EVENTS: &str = "/api/v1/crm/connect/events";
/// The common prefix of the records routes' paths.
pub const RECORDS: &str = "/api/v1/crm/connect";

/// An API key as its owner has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ApiKey {
    /// The slug of the key's tenant.
    pub tenant: String,
    /// The key's prefix, which identifies it in `X-Connect-Key`.
    pub prefix: String,
    /// The secret that signs requests.
    pub secret: String,
}

/// The time, in seconds since the epoch.
pub fn now() -> i64 {
    common::clock::now().timestamp()
}

/// The latest signature of the last minutes that this process hasn't used yet, so that the same body can be sent
/// again without being a replay.
fn unused(sign_at: impl Fn(i64) -> String) -> String {
    static USED: LazyLock<Mutex<HashSet<u64>>> = LazyLock::new(Mutex::default);
    let now = now();
    let mut signatures = (0..250).map(|age| sign_at(now - age));
    let is_new = |signature: &String| {
        let mut hash = DefaultHasher::new();
        signature.hash(&mut hash);
        USED.lock().insert(hash.finish())
    };
    signatures.find(is_new).expect("no body is sent 250 times within minutes")
}

impl ApiKey {
    /// The key that `connectctl key create` printed.
    pub fn of(tenant: &str, printed: &Value) -> Self {
        let part = |name: &str| printed[name].as_str().unwrap_or_else(|| panic!("no {name}: {printed}")).to_owned();
        Self { tenant: slug(tenant), prefix: part("prefix"), secret: part("secret") }
    }

    /// A signed batch. Its signature has not been used before.
    pub fn events(&self, body: impl Into<Bytes>) -> HttpRequest {
        let body = body.into();
        let signature = unused(|t| self.sign(t, Signed::Body(&body)));
        self.request("POST", EVENTS, body, signature)
    }

    /// A batch signed at `t`, seconds since the epoch.
    pub fn events_at(&self, t: i64, body: impl Into<Bytes>) -> HttpRequest {
        let body = body.into();
        let signature = self.sign(t, Signed::Body(&body));
        self.request("POST", EVENTS, body, signature)
    }

    /// A signed request to a records route; `target` is the path with its query.
    pub fn records(&self, method: &str, target: &str, body: impl Into<Bytes>) -> HttpRequest {
        let body = body.into();
        let signature = unused(|t| self.sign(t, Signed::Request { method, target, body: &body }));
        self.request(method, target, body, signature)
    }

    /// A records request signed at `t`, seconds since the epoch.
    pub fn records_at(&self, t: i64, method: &str, target: &str, body: impl Into<Bytes>) -> HttpRequest {
        let body = body.into();
        let signature = self.sign(t, Signed::Request { method, target, body: &body });
        self.request(method, target, body, signature)
    }

    fn sign(&self, t: i64, signed: Signed<'_>) -> String {
        sign(self.secret.as_bytes(), t, signed)
    }

    fn request(&self, method: &str, target: &str, body: Bytes, signature: String) -> HttpRequest {
        HttpRequest::new(method, target, body)
            .with("content-type", "application/json")
            .with("x-connect-key", &self.prefix)
            .with("x-connect-tenant", &self.tenant)
            .with("x-connect-signature", signature)
    }
}
