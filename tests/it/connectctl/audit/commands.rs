//! Each command that changes something adds one record, and no other command does.

use super::{RECORDS, count, last};
use admin::audit::Actor;
use chrono::{DateTime, Utc};
use common::clock;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use tests::{Connectctl, TestDatabase, World, text};
use uuid::Uuid;

/// All commands, as `--help` lists them: the words of each command that has no commands of its own.
async fn commands() -> BTreeSet<String> {
    let (connectctl, mut found, mut groups) = (Connectctl::with(Vec::new()), BTreeSet::new(), vec![String::new()]);
    while let Some(group) = groups.pop() {
        let words: Vec<&str> = group.split_whitespace().chain(["--help"]).collect();
        let help = connectctl.run(&words).await.output;
        // The commands at the top are in groups.
        let listed = if group.is_empty() { help.split_once("\n\n") } else { help.split_once("\nCommands:\n") };
        match listed {
            Some((_, rest)) => {
                let (rest, _) = rest.split_once("\nOptions:").unwrap_or((rest, ""));
                let lines = rest.lines().filter(|line| !line.starts_with("Usage:"));
                let lines = lines.filter_map(|line| line.strip_prefix("  ").filter(|line| !line.starts_with(' ')));
                let names = lines.filter_map(|line| line.split_whitespace().next());
                groups.extend(names.filter(|name| *name != "help").map(|name| format!("{group} {name}")));
            }
            None => assert!(found.insert(group.trim().to_owned()), "{group} twice"),
        }
    }
    found
}

/// Runs commands, and checks what they record.
struct Audited {
    world: World,
    run: BTreeSet<String>,
    /// Everything that was printed as a secret.
    secrets: Vec<String>,
}

impl Audited {
    async fn new() -> Self {
        let world = World::with().set("CONNECT_WEBHOOK_ALLOW_PRIVATE", "true").start().await;
        world.until_ready().await;
        Self { world, run: BTreeSet::new(), secrets: Vec::new() }
    }

    /// Runs a command. `command` are the words that `--help` lists, `rest` its arguments.
    async fn print(&mut self, command: &str, rest: &[&str]) -> Value {
        let words: Vec<&str> = command.split_whitespace().chain(rest.iter().copied()).collect();
        let ran = self.world.connectctl.run(&[&words[..], &["--json"]].concat()).await;
        // Nothing sends the test event here.
        let code = i32::from(command == "subscription test");
        assert_eq!(ran.code, Some(code), "{command} {rest:?}: {}", ran.errors);
        let printed = ran.json();
        self.run.insert(command.to_owned());
        self.secrets.extend(printed["secret"].as_str().map(str::to_owned));
        printed
    }

    /// Runs a command that changes nothing, and must not be recorded.
    async fn reads(&mut self, command: &str, rest: &[&str]) -> Value {
        let before = count(&self.world.database).await;
        let printed = self.print(command, rest).await;
        assert_eq!(count(&self.world.database).await, before, "{command} {rest:?}");
        printed
    }

    /// Runs a command that changes something, and must add one record: of that action, target and tenant.
    async fn changes(
        &mut self, command: &str, rest: &[&str], (action, target): (&str, impl Fn(&Value) -> String),
        tenant: Option<&str>,
    ) -> Value {
        let (before, began) = (count(&self.world.database).await, clock::now());
        let printed = self.print(command, rest).await;
        assert_eq!(count(&self.world.database).await, before + 1, "{command} {rest:?}");
        let added = last(&self.world.database).await;
        let at: DateTime<Utc> = text(&added["at"]).parse().expect("a time");
        assert!(began <= at && at <= clock::now(), "{began} {added}");
        let expected = json!({
            "at": added["at"], "who": Actor::operating_system_user().name(), "interface": "connectctl",
            "action": action, "target": target(&printed), "tenant": tenant,
        });
        assert_eq!(added, expected, "{command} {rest:?}");
        printed
    }
}

/// The target that a command names itself.
fn is(target: &str) -> impl Fn(&Value) -> String {
    let target = target.to_owned();
    move |_| target.clone()
}

/// The target that a command prints.
fn field(name: &'static str) -> impl Fn(&Value) -> String {
    move |printed| text(&printed[name]).to_owned()
}

#[tokio::test]
async fn every_command_that_changes_something_adds_one_record() {
    let mut audited = Audited::new().await;
    tenants_and_keys(&mut audited).await;
    subscriptions_and_deliveries(&mut audited).await;
    advisor_actions(&mut audited).await;
    installation(&mut audited).await;
    views(&mut audited).await;
    let Audited { world, run, secrets } = audited;
    assert_eq!(run, commands().await, "each command is run here, and its record checked");
    let records = json!(world.database.rows(RECORDS, &[]).await).to_string();
    assert!(secrets.len() >= 4, "{}", secrets.len());
    for hidden in secrets.iter().map(String::as_str).chain(["ana@example.com", "BR-1", "token"]) {
        assert!(!records.contains(hidden), "{hidden}");
    }
}

async fn tenants_and_keys(audited: &mut Audited) {
    let (of, beta) = (["--tenant", "beta"], Some("beta"));
    let create = ["--slug", "beta", "--name", "Beta"];
    audited.changes("tenant create", &create, ("tenant.create", is("beta")), beta).await;
    let set = ["--tenant", "beta", "--monthly-quota", "100"];
    audited.changes("tenant set", &set, ("tenant.set", is("beta")), beta).await;
    let member = ["--tenant", "beta", "--email", "Cleo@beta.test"];
    let add = [&member[..], &["--name", "Cleo"]].concat();
    audited.changes("member add", &add, ("member.add", is("cleo@beta.test")), beta).await;
    audited.changes("member remove", &member, ("member.remove", is("cleo@beta.test")), beta).await;
    let company = ["--tenant", "beta", "--name", "Example", "--domain", "example.test"];
    audited.changes("company create", &company, ("company.create", field("clientId")), beta).await;
    let create = ["--tenant", "beta", "--name", "site", "--scopes", "events:ingest"];
    let key = audited.changes("key create", &create, ("key.create", field("prefix")), beta).await;
    let prefix = text(&key["prefix"]);
    let scopes = [prefix, "--set", "clients:read"];
    audited.changes("key scopes", &scopes, ("key.scopes", is(prefix)), beta).await;
    let rotate = [prefix, "--overlap", "1h"];
    audited.changes("key rotate-secret", &rotate, ("key.rotate-secret", is(prefix)), beta).await;
    audited.changes("key end-overlap", &[prefix], ("key.end-overlap", is(prefix)), beta).await;
    audited.changes("key revoke", &[prefix], ("key.revoke", is(prefix)), beta).await;
    audited.reads("tenant list", &[]).await;
    audited.reads("member list", &of).await;
    audited.reads("key list", &of).await;
}

async fn subscriptions_and_deliveries(audited: &mut Audited) {
    let acme = Some("acme");
    let create = ["--tenant", "acme", "--url", "http://127.0.0.1:9/hooks?token=1"];
    let made = audited.changes("subscription create", &create, ("subscription.create", field("id")), acme).await;
    let id = text(&made["id"]);
    let rotate = ("subscription.rotate-secret", is(id));
    audited.changes("subscription rotate-secret", &[id, "--overlap", "1h"], rotate, acme).await;
    audited.changes("subscription pause", &[id], ("subscription.pause", is(id)), acme).await;
    audited.changes("subscription resume", &[id], ("subscription.resume", is(id)), acme).await;
    audited.reads("subscription list", &["--tenant", "acme"]).await;

    let delivery = delivered(&audited.world.database, id).await;
    audited.changes("delivery replay", &[&delivery], ("delivery.replay", is(&delivery)), acme).await;
    let job = ["--tenant", "acme", "--dead", "--no-wait"];
    let told = |job: &Value| format!("deliveries state=dead job={}", text(&job["id"]));
    let job = audited.changes("delivery replay", &job, ("delivery.replay", told), acme).await;
    audited.reads("delivery replay", &["--tenant", "acme", "--state", "dead", "--dry-run"]).await;
    audited.reads("replay list", &["--tenant", "acme"]).await;
    audited.reads("replay show", &[text(&job["id"])]).await;
    audited.changes("replay stop", &[text(&job["id"])], ("replay.stop", field("id")), acme).await;
    audited.world.add_dispatcher().await;
    let events = [id, "--set", "lead.assigned"];
    audited.changes("subscription events", &events, ("subscription.events", is(id)), acme).await;
    audited.changes("subscription test", &[id], ("subscription.test", is(id)), acme).await;
    audited.reads("delivery list", &["--tenant", "acme"]).await;
    audited.reads("delivery summary", &[]).await;
    audited.reads("delivery show", &[&delivery]).await;
    audited.changes("subscription remove", &[id], ("subscription.remove", is(id)), acme).await;
}

async fn delivered(database: &TestDatabase, subscription: &str) -> String {
    let id = Uuid::now_v7().to_string();
    let insert = format!(
        "INSERT INTO deliveries (tenant_id, delivery_id, event_id, subscription_id, state, created_at, number)
         SELECT tenant_id, '{id}', '{id}', subscription_id, 'delivered', now(), 1000
         FROM subscriptions WHERE subscription_id = '{subscription}'"
    );
    database.execute(&insert).await;
    id
}

async fn advisor_actions(audited: &mut Audited) {
    let (acme, message) = (Some("acme"), Uuid::now_v7().to_string());
    let open = ["--tenant", "acme", "--email", "ana@example.com", "--message-id", &message];
    let opened = ("advisor.open-lead", is(&message));
    let opened = audited.changes("advisor open-lead", &open, opened, acme).await;
    let (client, lead) = (text(&opened["clientId"]), text(&opened["leadId"]));
    let again = ["--tenant", "acme", "--client", client];
    audited.changes("advisor open-lead", &again, ("advisor.open-lead", is(client)), acme).await;
    let of = ["--tenant", "acme", "--lead", lead];
    let actions: [(&str, &str, &[&str]); 8] = [
        ("advisor assign", "advisor.assign", &["--owner", "ben@acme.test"]),
        ("advisor stage", "advisor.stage", &["--stage", "negotiation"]),
        (
            "advisor proposal-send",
            "advisor.proposal-send",
            &["--title", "Goa", "--url", "https://proposals.example/p/1", "--channel", "email"],
        ),
        ("advisor proposal-view", "advisor.proposal-view", &[]),
        ("advisor proposal-discard", "advisor.proposal-discard", &[]),
        ("advisor booking-confirm", "advisor.booking-confirm", &["--booking-ref", "BR-1"]),
        ("advisor travelled", "advisor.travelled", &[]),
        ("advisor archive", "advisor.archive", &[]),
    ];
    for (command, action, options) in actions {
        audited.changes(command, &[&of[..], options].concat(), (action, is(lead)), acme).await;
    }
    let message = Uuid::now_v7().to_string();
    let cancel = ["--tenant", "acme", "--booking-ref", "BR-1", "--message-id", &message];
    let canceled = ("advisor.booking-cancel", is(&message));
    audited.changes("advisor booking-cancel", &cancel, canceled, acme).await;
    let of_client = ["--tenant", "acme", "--client", client];
    for command in ["timeline", "discovery"] {
        audited.reads(command, &of_client).await;
    }
    for command in ["inbox", "invoice"] {
        audited.reads(command, &of).await;
    }
    audited.changes("client export", &of_client, ("client.export", is(client)), acme).await;
    let confirmed = [&of_client[..], &["--yes"]].concat();
    audited.changes("client erase", &confirmed, ("client.erase", is(client)), acme).await;
    audited.changes("client erase", &confirmed, ("client.erase", is(client)), acme).await;
}

/// Commands that concern all tenants.
async fn installation(audited: &mut Audited) {
    audited.reads("migrate", &[]).await;
    for queue in ["events", "records", "crm", "webhooks"] {
        let named = [queue, "--dead"];
        audited.changes("queue requeue", &named, ("queue.requeue", is(queue)), None).await;
        let confirmed = [queue, "--dead", "--yes"];
        audited.changes("queue drop", &confirmed, ("queue.drop", is(queue)), None).await;
        audited.reads("queue show", &named).await;
    }
    audited.reads("queue list", &[]).await;
    audited.changes("secrets rotate", &[], ("secrets.rotate", field("keyId")), None).await;
    audited.reads("secrets list", &[]).await;
    audited.reads("retention plan", &[]).await;
    let run = ("retention.run", is("expired rows"));
    audited.changes("retention run", &[], run, None).await;
}

async fn views(audited: &mut Audited) {
    audited.reads("queue declare", &[]).await;
    audited.reads("roles", &[]).await;
    audited.reads("settings", &[]).await;
    audited.reads("completions", &["bash"]).await;
    let before = count(&audited.world.database).await;
    // It finds fault with the tests' servers, which are not durable, and exits with 1.
    audited.world.connectctl.run(&["doctor", "--json"]).await;
    audited.run.insert("doctor".to_owned());
    assert_eq!(count(&audited.world.database).await, before, "doctor");
    for command in ["pipeline", "notifications", "usage", "audit", "refusals"] {
        audited.reads(command, &["--tenant", "acme"]).await;
    }
    // An export is no JSON value, and is recorded.
    let before = count(&audited.world.database).await;
    let exported = audited.world.connectctl.run(&["audit", "--export", "jsonl"]).await;
    assert_eq!((exported.code, count(&audited.world.database).await), (Some(0), before + 1), "{exported:?}");
    let record = last(&audited.world.database).await;
    assert_eq!((&record["action"], &record["target"]), (&json!("audit.export"), &json!("all tenants")));
    audited.reads("pressure", &[]).await;
    audited.reads("find", &["acme-1"]).await;
    let operator = ["--role", "operator"];
    audited.changes("console login", &operator, ("console.login", is("operator as operator")), None).await;
    let admin = ["--role", "admin", "--tenant", "acme", "--name", "Ada"];
    audited.changes("console login", &admin, ("console.login", is("Ada as admin")), Some("acme")).await;
    let partner = ["--tenant", "acme", "--name", "Bo"];
    let recorded = ("console.partner-link", is("Bo as viewer"));
    audited.changes("console partner-link", &partner, recorded, Some("acme")).await;
    let tenant = ["--tenant", "acme"];
    let recorded = ("console.revoke-partners", is("acme"));
    audited.changes("console revoke-partners", &tenant, recorded, Some("acme")).await;
    let recorded = ("console.end-sessions", is("everybody"));
    audited.changes("console end-sessions", &["--all"], recorded, None).await;
}
