//! Replays of many deliveries as jobs of the dispatcher.

use super::{OutboundWorld, Subscription};
use crate::connectctl::deliveries::deliveries;
use chrono::TimeDelta;
use common::clock;
use serde_json::{Value, json};
use std::collections::HashSet;
use tests::{World, text, until};
use uuid::Uuid;

/// Notes each replay of a delivery, whichever program makes it.
const NOTE_REPLAYS: &str = "
    CREATE TABLE noted_replays (delivery_id uuid, at timestamptz DEFAULT clock_timestamp());
    CREATE FUNCTION note_replay() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
    BEGIN
        INSERT INTO public.noted_replays VALUES (NEW.delivery_id);
        RETURN NULL;
    END $$;
    CREATE TRIGGER note_replay AFTER UPDATE ON deliveries FOR EACH ROW
        WHEN (OLD.state <> 'pending' AND NEW.state = 'pending') EXECUTE FUNCTION note_replay();";

/// A time at which test deliveries were made: recent, so that none expires.
fn recently() -> String {
    (clock::now() - TimeDelta::hours(3)).to_rfc3339()
}

async fn insert(outbound: &OutboundWorld, subscription: &Subscription, state: &str, count: i32) -> Vec<Uuid> {
    let id = subscription.id.parse().expect("a UUID");
    deliveries(&outbound.world, "acme", id, state, count, &recently()).await
}

async fn replay(outbound: &OutboundWorld, options: &[&str]) -> Value {
    let replay = ["delivery", "replay", "--tenant", "acme"];
    outbound.world.connectctl.json(&[&replay, options].concat()).await
}

/// The ids of the deliveries that the receiver got, once nothing is pending.
async fn received(outbound: &OutboundWorld) -> HashSet<String> {
    outbound.until_settled().await;
    let received = outbound.receiver.received();
    received.iter().map(|webhook| webhook.header("x-connect-delivery").to_owned()).collect()
}

async fn job(outbound: &OutboundWorld, id: &str) -> Value {
    outbound.world.connectctl.json(&["replay", "show", id]).await
}

/// Waits until a job has ended in that state.
async fn until_ended(outbound: &OutboundWorld, id: &str, state: &str) -> Value {
    until(&format!("the job is {state}"), async || job(outbound, id).await, |job| job["state"] == state).await
}

async fn until_replayed(outbound: &OutboundWorld, least: i64) {
    let noted = async || outbound.world.database.count("SELECT count(*) FROM noted_replays").await;
    until(&format!("{least} deliveries are replayed"), noted, |&noted| noted >= least).await;
}

#[tokio::test]
async fn a_job_replays_what_matches() {
    let outbound = OutboundWorld::shared().await;
    let (one, other) = (outbound.subscribe("/one", &[]).await, outbound.subscribe("/other", &[]).await);
    let dead = insert(&outbound, &one, "dead", 7).await;
    insert(&outbound, &other, "dead", 2).await;
    insert(&outbound, &one, "delivered", 3).await;
    let of_one = ["--state", "dead", "--subscription", one.id.as_str()];
    let dry = replay(&outbound, &[&of_one[..], &["--dry-run"]].concat()).await;
    assert_eq!(dry, json!({"matched": 7, "replayed": 0}));
    let typed = ["--event-type", "lead.assigned", "--dry-run"];
    assert_eq!(replay(&outbound, &typed).await["matched"], 12);
    let typed = ["--event-type", "proposal.sent", "--dry-run"];
    assert_eq!(replay(&outbound, &typed).await["matched"], 0);
    assert_eq!(outbound.count("dead").await, 9, "nothing was replayed");

    let of_one = ["--dead", "--subscription", one.id.as_str()];
    assert_eq!(replay(&outbound, &of_one).await, json!({"matched": 7, "replayed": 7}));
    outbound.until_deliveries("delivered", 10).await;
    assert_eq!(outbound.count("dead").await, 2, "those of the other subscription stay");
    assert_eq!(received(&outbound).await, dead.iter().map(Uuid::to_string).collect());
    assert_eq!(replay(&outbound, &of_one).await, json!({"matched": 0, "replayed": 0}));
    let listed = outbound.world.connectctl.list(&["replay", "list", "--tenant", "acme"]).await;
    assert_eq!((listed.len(), &listed[0]["state"]), (1, &json!("completed")), "{listed:?}");
}

#[tokio::test]
async fn event_types_and_times_select_among_many_deliveries() {
    let outbound = OutboundWorld::shared().await;
    let subscription = outbound.subscribe("/hooks", &[]).await;
    // More than are read for one batch, and the last one alone has the type.
    let ids = insert(&outbound, &subscription, "delivered", 1_203).await;
    let last = ids.last().expect("many");
    let rare = format!(
        "UPDATE outbox SET event_type = 'proposal.sent'
         WHERE event_id = (SELECT event_id FROM deliveries WHERE delivery_id = '{last}')"
    );
    outbound.world.database.execute(&rare).await;
    let typed = ["--event-type", "proposal.sent"];
    assert_eq!(replay(&outbound, &typed).await, json!({"matched": 1, "replayed": 1}));
    assert_eq!(received(&outbound).await, HashSet::from([last.to_string()]));
    let (from, to) = (time_of(ids[10]), time_of(ids[14]));
    let range = ["--from", &from, "--to", &to];
    assert_eq!(replay(&outbound, &range).await, json!({"matched": 4, "replayed": 4}));
    let open = ["--to", from.as_str()];
    assert_eq!(replay(&outbound, &open).await, json!({"matched": 10, "replayed": 10}));
}

/// The time in a UUIDv7.
fn time_of(id: Uuid) -> String {
    let (seconds, nanos) = id.get_timestamp().expect("a UUIDv7").to_unix();
    let at = chrono::DateTime::from_timestamp(i64::try_from(seconds).expect("a time"), nanos);
    at.expect("a time").to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

#[tokio::test]
async fn killed_dispatchers_replay_each_delivery_once() {
    const COUNT: i32 = 600;
    let mut outbound = OutboundWorld::start().await;
    let subscription = outbound.subscribe("/hooks", &[]).await;
    insert(&outbound, &subscription, "delivered", COUNT / 2).await;
    insert(&outbound, &subscription, "dead", COUNT / 2).await;
    outbound.world.database.execute(NOTE_REPLAYS).await;
    let options = ["--rate", "300", "--subscription", &subscription.id, "--no-wait"];
    let created = replay(&outbound, &options).await;
    let id = text(&created["id"]);
    assert_eq!((&created["matched"], &created["state"]), (&json!(COUNT), &json!("running")));
    for part in 1..=3 {
        until_replayed(&outbound, i64::from(COUNT * part / 5)).await;
        outbound.world.restart_dispatcher().await;
    }
    let ended = until_ended(&outbound, id, "completed").await;
    assert_eq!(ended["replayed"], COUNT, "{ended}");
    let noted = "SELECT count(*) AS all, count(DISTINCT delivery_id) AS distinct FROM noted_replays";
    let noted = outbound.world.database.rows(noted, &[]).await.remove(0);
    assert_eq!((&noted["all"], &noted["distinct"]), (&json!(COUNT), &json!(COUNT)), "each once");
    outbound.until_deliveries("delivered", COUNT.into()).await;
}

#[tokio::test]
async fn a_job_keeps_its_rate_and_can_be_stopped() {
    let outbound = OutboundWorld::start().await;
    let subscription = outbound.subscribe("/hooks", &[]).await;
    insert(&outbound, &subscription, "delivered", 200).await;
    outbound.world.database.execute(NOTE_REPLAYS).await;
    let created = replay(&outbound, &["--state", "delivered", "--rate", "20", "--no-wait"]).await;
    let id = text(&created["id"]);
    until_replayed(&outbound, 50).await;
    let stopped = outbound.world.connectctl.json(&["replay", "stop", id]).await;
    assert_eq!(stopped["id"], created["id"]);
    let noted = async || outbound.world.database.count("SELECT count(*) FROM noted_replays").await;
    let at_stop = noted().await;
    let ended = until_ended(&outbound, id, "stopped").await;
    assert!(ended["endedAt"].is_string(), "{ended}");
    assert_eq!((noted().await, ended["replayed"].as_i64()), (at_stop, Some(at_stop)), "nothing follows");
    outbound.world.connectctl.assert_refusal(&["replay", "stop", id], "is not running any more").await;
    // A second of the rate may be replayed at once.
    let span = "SELECT (extract(epoch FROM max(at) - min(at)) * 1000)::bigint FROM noted_replays";
    let millis = outbound.world.database.count(span).await;
    assert!(millis >= (at_stop - 20) * 1_000 / 20 - 100, "{at_stop} in {millis} ms");
}

#[tokio::test]
async fn a_job_waits_for_a_dispatcher_and_leaves_out_removed_subscriptions() {
    let mut outbound = OutboundWorld::without_dispatcher(World::with()).await;
    let (kept, removed) = (outbound.subscribe("/kept", &[]).await, outbound.subscribe("/removed", &[]).await);
    insert(&outbound, &kept, "dead", 3).await;
    insert(&outbound, &removed, "dead", 3).await;
    let created = replay(&outbound, &["--state", "dead", "--no-wait"]).await;
    assert_eq!(created["matched"], 6);
    outbound.change_subscription("remove", &removed).await;
    outbound.world.add_dispatcher().await;
    let ended = until_ended(&outbound, text(&created["id"]), "completed").await;
    assert_eq!(ended["replayed"], 3, "{ended}");
    outbound.until_deliveries("delivered", 3).await;
    assert_eq!((outbound.count("dead").await, outbound.count("dropped").await), (0, 3));
}

#[tokio::test]
async fn jobs_of_other_agencies_delay_none() {
    let outbound = OutboundWorld::start().await;
    outbound.world.add_tenant("zeta").await;
    let subscription = outbound.subscribe("/acme", &[]).await;
    insert(&outbound, &subscription, "dead", 3).await;
    // More than are read together, and older. None of them is ever permitted to replay anything.
    let older = "INSERT INTO replay_jobs
            (tenant_id, job_id, states, first_id, end_id, per_second, state, batch_at, created_at)
        SELECT tenant_id, lpad(to_hex(n), 32, '0')::uuid, '{dead}', '00000000-0000-0000-0000-000000000000',
            'ffffffff-ffff-ffff-ffff-ffffffffffff', 1, 'running', now() + interval '1 day', now()
        FROM tenants, generate_series(1, 65) AS n WHERE slug = 'zeta'";
    outbound.world.database.execute(older).await;
    assert_eq!(replay(&outbound, &["--dead"]).await, json!({"matched": 3, "replayed": 3}));
    outbound.until_deliveries("delivered", 3).await;
}

#[tokio::test]
async fn a_job_whose_deliveries_are_locked_delays_no_other_and_leaves_none_out() {
    let outbound = OutboundWorld::start().await;
    let (one, other) = (outbound.subscribe("/one", &[]).await, outbound.subscribe("/other", &[]).await);
    insert(&outbound, &one, "dead", 5).await;
    insert(&outbound, &other, "dead", 3).await;
    let lock = "UPDATE deliveries SET last_error = NULL WHERE number = 2 AND subscription_id";
    let session = outbound.world.database.begin(&format!("{lock} = '{}'", one.id)).await;
    let created = replay(&outbound, &["--dead", "--subscription", &one.id, "--no-wait"]).await;
    assert_eq!(replay(&outbound, &["--dead", "--subscription", &other.id]).await["replayed"], 3);
    session.batch_execute("ROLLBACK").await.expect("a rollback");
    let ended = until_ended(&outbound, text(&created["id"]), "completed").await;
    assert_eq!(ended["replayed"], 5, "{ended}");
    outbound.until_deliveries("delivered", 8).await;
}
