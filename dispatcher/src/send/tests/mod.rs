//! The sender against receivers of every kind.

mod connections;
mod failures;
mod request;
mod ssrf;

use super::{Attempt, Outcome, Sender, SenderSettings, WebhookRequest};
use bytes::Bytes;
use common::egress::{EgressSettings, LOOK_UP_OWNER, Network, ReceiverUrl, ResolveResult, SystemNetwork};
use common::sealed::Secret;
use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tests::{Authority, Behavior, Receiver};
use tokio::net::TcpStream;
use uuid::Uuid;

const BODY: &str = "{\"specVersion\":\"1.0\", \"eventType\":\"lead.assigned\"}";
const DELIVERY: Uuid = Uuid::from_u128(0x0195_f0c2_7a31_7c55_9d10_3f6f_2b8f_1a01);
const SECRET: &str = "whsec_bmV3";
const OLD_SECRET: &str = "whsec_b2xk";

/// A timeout that no passing test reaches.
const LONG: Duration = Duration::from_secs(30);
/// A timeout for receivers that never respond.
const SHORT: Duration = Duration::from_millis(250);

fn settings(allow_private: bool, timeout: Duration, ca_file: Option<&Path>) -> SenderSettings {
    let egress = EgressSettings { allow_private, ports: vec![443, 8443] };
    SenderSettings { timeout, egress, ca_file: ca_file.map(Path::to_owned) }
}

/// A sender that may send to this machine.
fn local(timeout: Duration) -> Sender {
    Sender::new(&settings(true, timeout, None)).unwrap()
}

/// A sender that also trusts a certificate authority.
fn trusting(authority: &Authority, timeout: Duration) -> Sender {
    Sender::new(&settings(true, timeout, Some(authority.file()))).unwrap()
}

async fn send(sender: &Sender, url: &str) -> Attempt {
    let url = ReceiverUrl::parse(url).unwrap();
    let secrets = [Secret::new(SECRET.to_owned())];
    sender.send(&webhook(&url, &secrets)).await
}

fn webhook<'a>(url: &'a ReceiverUrl, secrets: &'a [Secret]) -> WebhookRequest<'a> {
    WebhookRequest {
        url,
        tenant: "acme",
        event_type: "lead.assigned",
        delivery_id: DELIVERY,
        number: 42,
        event_id: Uuid::nil(),
        secrets,
        body: Bytes::from_static(BODY.as_bytes()),
        now: common::clock::now(),
        context: common::trace::TraceContext::begin(false),
    }
}

/// A network with configured results, which records the calls.
#[derive(Debug, Default)]
struct FakeNetwork {
    /// The results of name resolution, one for each call; after the last one, no name resolves.
    answers: Mutex<VecDeque<ResolveResult>>,
    /// The address that all connections are made to; `None` refuses them.
    leads_to: Option<SocketAddr>,
    asked: Mutex<Vec<String>>,
    owners: Mutex<Vec<Option<Uuid>>>,
    dialed: Mutex<Vec<SocketAddr>>,
}

impl FakeNetwork {
    fn answering(answers: &[&[&str]], leads_to: Option<SocketAddr>) -> Arc<Self> {
        let parsed = answers.iter().map(|one| Ok(one.iter().map(|a| a.parse().unwrap()).collect()));
        Arc::new(Self { answers: Mutex::new(parsed.collect()), leads_to, ..Self::default() })
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().clone()
    }

    fn dialed(&self) -> Vec<String> {
        self.dialed.lock().iter().map(SocketAddr::to_string).collect()
    }
}

impl Network for FakeNetwork {
    fn resolve(&self, name: &str) -> BoxFuture<'static, ResolveResult> {
        self.asked.lock().push(name.to_owned());
        self.owners.lock().push(LOOK_UP_OWNER.try_with(|owner| *owner).ok());
        let answer = self.answers.lock().pop_front();
        std::future::ready(answer.unwrap_or_else(|| Err("no such name".to_owned()))).boxed()
    }

    fn dial(&self, address: SocketAddr) -> BoxFuture<'static, io::Result<TcpStream>> {
        self.dialed.lock().push(address);
        match self.leads_to {
            Some(really) => SystemNetwork.dial(really),
            None => std::future::ready(Err(io::ErrorKind::ConnectionRefused.into())).boxed(),
        }
    }
}
