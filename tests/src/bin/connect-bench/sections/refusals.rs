//! Refused requests: their rate, compared with a bare warp server that computes one HMAC; and whether the response time
//! reveals which keys exist.

use super::bare_server::BareServer;
use super::refusal_times;
use crate::caller::Caller;
use crate::comparison::Comparison;
use crate::cpu::{CpuMeter, CpuTime};
use crate::figures::{LoadStats, measure, timed};
use crate::options::Options;
use crate::prepare::{api_address, print_warnings};
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
enum RefusalReason {
    BadSignature,
    BadSignatureOfTen,
    UnknownKey,
    Malformed,
    Replay,
}

impl RefusalReason {
    const ALL: [Self; 5] =
        [Self::BadSignature, Self::UnknownKey, Self::Malformed, Self::Replay, Self::BadSignatureOfTen];

    /// The label of its row, and the target ratio to the floor.
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
    print_recorded(&world).await;
    refusal_times::run(&world).await;
    print_warnings(&world);
}

async fn rates(world: &World, options: &Options) {
    let (floor, meter) = (BareServer::start(), CpuMeter::new(world));
    let steps = RefusalReason::ALL.len() * options.rounds;
    let mut progress = Progress::begin("rounds measured:", steps as u64);
    let mut rows = Vec::new();
    for reason in RefusalReason::ALL {
        let (label, target) = reason.row();
        let mut comparison = Comparison::new(label, target);
        let (mut spent, mut count) = (None::<CpuTime>, 0);
        for _ in 0..options.rounds {
            progress.next(label);
            let before = meter.read();
            let stats = load(api_address(world), &world.key, reason, Some(reason.status()), options).await;
            let used = meter.read().since(&before);
            spent = Some(spent.map_or_else(|| used.clone(), |all| all.plus(&used)));
            count += stats.count;
            comparison.add(stats, load(floor.address(), &world.key, reason, None, options).await);
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

/// How many refusals are stored for the owner of the key (D35): the rates above include that work.
async fn print_recorded(world: &World) {
    let stored = world.database.count("SELECT count(*) FROM refused_requests").await;
    let refused = world.ingests[0].metrics().await.sum("connect_auth_failures_total", &[]);
    println!("stored for the owners of keys meanwhile: a sample of {stored} of {refused} refusals with 401");
}

/// Measures refused requests of one kind. Each response must have the status code `status`, if there is one.
async fn load(
    address: SocketAddr,
    key: &ApiKey,
    reason: RefusalReason,
    status: Option<u16>,
    options: &Options,
) -> LoadStats {
    let request = request_of(key, reason);
    let connect = async || (Caller::connect(address).await, Random::new());
    let mut callers = join_all((0..CONNECTIONS).map(|_| connect())).await;
    if reason == RefusalReason::Replay {
        // The first use of the signature. The floor does not distinguish it.
        callers[0].0.send(&request).await;
    }
    measure(&mut callers, options.duration(), 1, async |(caller, random): &mut (Caller, Random)| {
        let own = (reason == RefusalReason::Malformed).then(|| malformed(key, random));
        let (response, took) = timed(caller.send(own.as_ref().unwrap_or(&request))).await;
        assert!(status.is_none_or(|status| response.status == status), "{reason:?}: {response:?}");
        took
    })
    .await
}

fn request_of(key: &ApiKey, reason: RefusalReason) -> Vec<u8> {
    match reason {
        RefusalReason::BadSignature => request::events(&with_wrong_secret(key), &events(key, 1)),
        RefusalReason::BadSignatureOfTen => request::events(&with_wrong_secret(key), &events(key, 10)),
        RefusalReason::UnknownKey => request::events(&unknown_key(key), &events(key, 1)),
        RefusalReason::Malformed | RefusalReason::Replay => request::events(key, &events(key, 1)),
    }
}

/// A batch of new events.
pub(super) fn events(key: &ApiKey, count: usize) -> String {
    body(&Traffic::Identified.draw(count, &mut Random::new()), &key.tenant)
}

/// A request whose event has no valid type. Each differs, because a signature may be used once only.
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
