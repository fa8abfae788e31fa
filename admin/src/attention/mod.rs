//! What needs attention: of one agency, or of the whole installation. Each line says what is wrong and how much, where to look and what
//! to do. One cause has one line, which disappears when it has recovered. The overviews, the mails and `connectctl doctor` show the
//! same lines, and each sentence stands here once.
//!
//! It reads sums that the programs write for each minute, and bounded numbers of other rows, however many events and deliveries there
//! are. It does not ask the broker.

mod agency;
mod installation;

use crate::activity::{ActivityMinute, MINUTE, first_period};
use crate::deliveries::first_id;
pub use crate::store::attention::{AttentionNews, MailRecipient, confirm_news, mail_recipients, postpone_news};
use crate::store::attention::{FailureCause, RefusalCause};
use crate::{Result, store};
pub use agency::{AgencyOverview, shorten};
use chrono::TimeDelta;
use common::clock;
use common::db::column;
use common::model::TenantId;
pub use installation::ServerStates;
use std::collections::BTreeMap;
use std::fmt::Display;
use tokio_postgres::Client;
use uuid::Uuid;

/// The latest minutes that are looked at for what fails.
const RECENT: usize = 10;

/// Something that needs attention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attention {
    /// A name that stays the same as long as it lasts, whatever its size.
    pub cause: String,
    /// What is wrong and how much, in sentences.
    pub text: String,
    /// What to do, in sentences.
    pub next: String,
    /// Where to look.
    pub place: Place,
    /// Whether an agency is told by mail: not of what it has done itself, nor of single failures.
    pub is_mailed: bool,
    /// For operators: the slugs of the agencies that have the most of it, which the text names too.
    pub agencies: Vec<String>,
}

/// Where more is told about something that needs attention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A page of the agency, below its start page, such as `/webhooks`.
    Page(String),
    /// The section of the runbook with this heading.
    Runbook(&'static str),
}

/// Whose attention is asked for.
#[derive(Clone, Copy, Debug)]
pub enum Scope<'a> {
    /// That of an agency.
    Agency(&'a AgencyOverview),
    /// That of operators, with what the caller sees of the servers by itself.
    Installation(&'a ServerStates),
}

/// What needs attention now.
pub async fn find(client: &Client, scope: Scope<'_>) -> Result<Vec<Attention>> {
    let now = clock::database_now();
    let since = first_period(now, MINUTE, RECENT as i32);
    match scope {
        Scope::Agency(agency) => {
            let failures = store::attention::failures(client, agency.tenant.0, since).await?;
            let refusals = store::attention::refusals(client, agency.tenant, first_id(since)).await?;
            Ok(agency.lines(&failures, &refusals, now))
        }
        Scope::Installation(servers) => {
            let failures = store::attention::failures(client, Uuid::nil(), since).await?;
            let mut found = installation::Seen::load(client, failures, now).await?.lines(servers);
            for one in &mut found {
                let are_refused = one.cause == "ConnectAuthFailuresSurge";
                if are_refused {
                    let statuses = listed(store::attention::refused_statuses(client, since).await?);
                    one.text = format!("{} Statuses of those on record: {statuses}.", one.text);
                }
                if are_refused || one.cause == "ConnectWebhooksFailing" {
                    let worst = store::activity::worst(client, since, are_refused).await?;
                    if !worst.is_empty() {
                        one.text = format!("{} Agencies with the most: {}.", one.text, listed(worst.clone()));
                    }
                    one.agencies = worst.into_iter().map(|(slug, _)| slug).collect();
                }
            }
            Ok(found)
        }
    }
}

impl Attention {
    fn of_agency(cause: impl Into<String>, page: impl Into<String>, text: String, next: &str, is_mailed: bool) -> Self {
        let place = Place::Page(page.into());
        Self { cause: cause.into(), text, next: next.to_owned(), place, is_mailed, agencies: Vec::new() }
    }

    /// A line for operators, with its section of the runbook.
    pub(crate) fn of_installation(section: &'static str, text: String, next: impl Into<String>) -> Self {
        let (cause, next, place) = (section.to_owned(), next.into(), Place::Runbook(section));
        Self { cause, text, next, place, is_mailed: false, agencies: Vec::new() }
    }

    /// The line for everybody while the database cannot be reached: nothing else is known then.
    pub fn database_unreachable() -> Self {
        let text = "The database cannot be reached, or does not respond in time. Requests of partners get 503 and must be repeated.";
        let next = "If this does not end, operators start or repair Postgres; the programs reconnect by themselves.";
        Self::of_installation("ConnectReplayStoreDown", text.to_owned(), next)
    }

    /// The next step where there are no links.
    pub fn next_with_section(&self) -> String {
        match self.place {
            Place::Page(_) => self.next.clone(),
            Place::Runbook(section) => format!("{} See the runbook, {section}", self.next),
        }
    }
}

/// Claims for the caller what an agency is to be told by mail now: what needs attention and was not told, and what was told and needs it
/// no more; of each cause at most once an hour. The claims are in the database, so that one copy of the console sends each mail, and none
/// repeats it after a restart. A claim that is not confirmed within a minute is anybody's again.
pub async fn claim_news(client: &Client, tenant: TenantId, found: &[Attention]) -> Result<Vec<AttentionNews>> {
    let causes = column(found, |one| one.cause.as_str());
    let texts = column(found, |one| format!("{} {}", one.text, one.next));
    let are_mailed = column(found, |one| one.is_mailed);
    store::attention::claim(client, tenant, (&causes, &texts, &are_mailed)).await
}

/// How long messages, events and webhooks may wait.
const LATE: TimeDelta = TimeDelta::minutes(1);

/// A time of a minute or more, in whole minutes.
fn minutes(time: TimeDelta) -> String {
    counted(time.num_minutes(), "minute", "minutes")
}

/// A number with its words, for one thing or several.
fn counted(number: impl Display, one: &str, several: &str) -> String {
    let number = number.to_string();
    let words = if number == "1" { one } else { several };
    format!("{number} {words}")
}

/// The sum of a count in the latest minutes.
fn recent(hour: &[ActivityMinute], count: fn(&ActivityMinute) -> i64) -> i64 {
    hour[hour.len().saturating_sub(RECENT)..].iter().map(count).sum()
}

/// Whether the last three minutes, the current one among them, have none.
fn is_over(hour: &[ActivityMinute], count: fn(&ActivityMinute) -> i64) -> bool {
    hour.iter().rev().take(3).all(|minute| count(minute) == 0)
}

/// Of a cause `event:ERROR`.
fn failed_events(FailureCause { cause, failed, last_error, .. }: &FailureCause, hour: &[ActivityMinute]) -> String {
    let all = counted(recent(hour, |minute| minute.applied + minute.failed), "event", "events");
    let error = cause.trim_start_matches("event:");
    let latest = last_error.as_ref().map_or_else(String::new, |sent_by| format!(" The latest: key {sent_by}."));
    format!("{failed} of {all} failed in the last {RECENT} minutes with {error}.{latest}")
}

/// The responses with a status from 500 on, by their code.
fn response_codes(failures: &[FailureCause]) -> BTreeMap<&str, i64> {
    failures.iter().filter_map(|one| Some((one.cause.strip_prefix("response:")?, one.failed))).collect()
}

/// Numbers of things, behind their names.
fn listed(counts: impl IntoIterator<Item = (impl Display, impl Display)>) -> String {
    counts.into_iter().map(|(name, count)| format!("{name} ({count})")).collect::<Vec<_>>().join(", ")
}

fn failed_responses(codes: &BTreeMap<&str, i64>) -> String {
    let status = if codes.contains_key("internal_error") { "500 or 503" } else { "503" };
    let requests = counted(codes.values().sum::<i64>(), "request", "requests");
    format!("{requests} got {status} in the last {RECENT} minutes: {}.", listed(codes))
}

fn refused_requests(refused: i64, accepted: i64) -> String {
    let (all, were) = (counted(refused + accepted, "request", "requests"), if refused == 1 { "was" } else { "were" });
    format!("{refused} of {all} {were} refused in the last {RECENT} minutes.")
}

/// Why so many requests with a key were refused: one reason if it lasts and has more than half, else those that last.
fn refusal_reasons(all: &[&RefusalCause], refused: i64) -> String {
    let (lasting, recorded) = (all.iter().filter(|one| !one.is_over), all.iter().map(|one| one.requests).sum::<i64>());
    let Some(most) = lasting.clone().find(|one| 2 * one.requests > recorded) else {
        return format!("lately for {}", listed(lasting.map(|one| (&one.reason, one.requests))));
    };
    let mostly = if most.requests == refused { "" } else { "mostly " };
    let latest = if most.requests == 1 { "" } else { "the latest: " };
    let detail = most.detail.as_ref().map_or_else(String::new, |detail| format!(" ({latest}{detail})"));
    format!("{mostly}for the reason {}{detail}", most.reason)
}

/// What the error of failed events means, and what to do. They are not kept (D7), so no page lists them.
fn after_event_error(error: &str) -> String {
    let next = match error {
        "insufficient_scope" => "The key lacks the scope credit:write. Add it, and let the partner resend them.",
        "contact_not_found" => "No contact matches. The partner must send contact.identified first, and resend them.",
        "booking_not_found" => "No booking matches. The partner must send it, or correct bookingRef, and resend them.",
        "contact_erased" => "The agency erased the person. The partner must do so as well, and not resend them.",
        "internal_error" => "Connect could not apply them. Tell the operator. The partner must resend them later.",
        _ => "A field is missing or invalid. The partner must correct and resend them.",
    };
    format!("{next} The response to the request has the id and error of each.")
}

const AFTER_DEAD_LETTERS: &str = "Correct the receiver, then replay what was dead-lettered.";

fn dead_lettered(deliveries: impl Display, has_more: bool) -> String {
    counted(
        format_args!("{deliveries}{}", if has_more { " or more" } else { "" }),
        "delivery was dead-lettered: all its attempts failed.",
        "deliveries were dead-lettered: all their attempts failed.",
    )
}
