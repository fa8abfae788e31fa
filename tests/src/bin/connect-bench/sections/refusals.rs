//! Requests that are refused: how many a second, beside a bare warp server that computes one HMAC; and whether the time
//! of a refusal tells which keys exist.

use super::bare_server::BareServer;
use super::refusal_times;
use crate::caller::Caller;
use crate::comparison::Comparison;
use crate::cpu::{Meter, Used};
use crate::figures::{Stretch, measure, timed};
use crate::options::Options;
use crate::prepare::{api, print_warnings};
use crate::random::Random;
use crate::request;
use crate::traffic::{Traffic, body};
use common::progress::Progress;
use futures_util::future::join_all;
use std::net::SocketAddr;
use tests::{ApiKey, World};

/// Connections of the rates.
const CONNECTIONS: usize = 8;

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    BadSignature,
    BadSignatureOfTen,
    UnknownKey,
    Malformed,
    Replay,
}

impl Reason {
    const ALL: [Self; 5] =
        [Self::BadSignature, Self::UnknownKey, Self::Malformed, Self::Replay, Self::BadSignatureOfTen];

    /// What it is called, and the ratio to the floor to reach.
    const fn row(self) -> (&'static str, Option<f64>) {
        match self {
            Self::BadSignature => ("bad signature", Some(0.8)),
            Self::UnknownKey => ("unknown key", Some(0.8)),
            Self::Malformed => ("signed, but malformed", Some(0.4)),
            Self::Replay => ("replay", Some(0.4)),
            Self::BadSignatureOfTen => ("bad signature, ten events", None),
        }
    }

    const fn status(self) -> u16 {
        match self {
            Self::Malformed => 400,
            Self::BadSignature | Self::BadSignatureOfTen | Self::UnknownKey | Self::Replay => 401,
        }
    }
}

pub(crate) async fn run(options: &Options) {
    println!("refusals: requests with one event that are refused, {CONNECTIONS} connections;");
    println!("floor: the same requests to a bare warp server that computes one HMAC and refuses");
    let world = World::start().await;
    rates(&world, options).await;
    refusal_times::run(&world).await;
    print_warnings(&world);
}

async fn rates(world: &World, options: &Options) {
    let (floor, meter) = (BareServer::start(), Meter::new(world));
    let steps = Reason::ALL.len() * options.rounds;
    let mut progress = Progress::begin("rounds measured:", steps as u64);
    let mut rows = Vec::new();
    for reason in Reason::ALL {
        let (label, target) = reason.row();
        let mut comparison = Comparison::new(label, target);
        let (mut spent, mut count) = (None::<Used>, 0);
        for _ in 0..options.rounds {
            progress.next(label);
            let before = meter.read();
            let stretch = load(api(world), &world.key, reason, Some(reason.status()), options).await;
            let used = meter.read().since(&before);
            spent = Some(spent.map_or_else(|| used.clone(), |all| all.plus(&used)));
            count += stretch.count;
            comparison.add(stretch, load(floor.address(), &world.key, reason, None, options).await);
        }
        rows.push((comparison, spent.map(|used| used.per_thousand(count).to_string()), label));
    }
    progress.end(steps as u64);
    Comparison::print_head("refusals", "bare warp");
    rows.iter().for_each(|(comparison, ..)| comparison.print());
    println!("CPU time per 1,000 refusals:");
    for (_, spent, label) in &rows {
        println!("  {label}: {}", spent.as_deref().unwrap_or_default());
    }
}

/// Sends requests of that kind for one stretch; each must be answered with `status`, where one is given.
async fn load(
    address: SocketAddr,
    key: &ApiKey,
    reason: Reason,
    status: Option<u16>,
    options: &Options,
) -> Stretch {
    let request = request_of(key, reason);
    let connect = async || (Caller::connect(address).await, Random::new());
    let mut callers = join_all((0..CONNECTIONS).map(|_| connect())).await;
    if reason == Reason::Replay {
        // The first use of the signature; the floor knows no difference.
        callers[0].0.send(&request).await;
    }
    measure(&mut callers, options.stretch(), 1, async |(caller, random): &mut (Caller, Random)| {
        let own = (reason == Reason::Malformed).then(|| malformed(key, random));
        let (response, took) = timed(caller.send(own.as_ref().unwrap_or(&request))).await;
        assert!(status.is_none_or(|status| response.status == status), "{reason:?}: {response:?}");
        took
    })
    .await
}

fn request_of(key: &ApiKey, reason: Reason) -> Vec<u8> {
    match reason {
        Reason::BadSignature => request::events(&with_wrong_secret(key), &events(key, 1)),
        Reason::BadSignatureOfTen => request::events(&with_wrong_secret(key), &events(key, 10)),
        Reason::UnknownKey => request::events(&unknown_key(key), &events(key, 1)),
        Reason::Malformed | Reason::Replay => request::events(key, &events(key, 1)),
    }
}

/// A batch of new events.
pub(super) fn events(key: &ApiKey, count: usize) -> String {
    body(&Traffic::Identified.draw(count, &mut Random::new()), &key.tenant)
}

/// A request whose event has no valid type; another one each time, as its signature may be used once.
fn malformed(key: &ApiKey, random: &mut Random) -> Vec<u8> {
    let valid = body(&Traffic::Identified.draw(1, random), &key.tenant);
    request::events(key, &valid.replacen("contact.identified", "contact.unheard-of", 1))
}

/// The key with a secret that is not its own.
pub(super) fn with_wrong_secret(key: &ApiKey) -> ApiKey {
    ApiKey { secret: key.secret.chars().rev().collect(), ..key.clone() }
}

/// A key that does not exist.
pub(super) fn unknown_key(key: &ApiKey) -> ApiKey {
    let prefix: String = key.prefix.chars().take(3).chain("f".repeat(key.prefix.len() - 3).chars()).collect();
    ApiKey { prefix, ..key.clone() }
}
