//! What happened in the last hour, and what needs attention: the overview of the settings area.
//!
//! The programs write sums for each minute ([`common::activity`]), so that an overview reads a few rows, however many events and
//! deliveries there are.

mod agency;
mod attention;
mod mails;

pub use crate::store::activity::{ActivityMinute, QueueState};
use crate::store::attention::FailureCause;
pub use crate::store::attention::{AttentionNews, MailRecipient, mail_recipients};
use crate::{Result, store};
pub use agency::{AgencyOverview, agency};
pub use attention::{ServerStates, attention};
pub(crate) use attention::{TIMED_OUT_SECTION, timed_out_requests};
use chrono::{DateTime, DurationRound as _, TimeDelta, Utc};
use common::broker::Queue;
use common::clock;
use common::model::TenantId;
pub use mails::{claim_news, confirm_news, postpone_news};
use std::fmt::Display;
use tokio_postgres::Client;
use uuid::Uuid;

/// Minutes of an overview, the current one included.
pub const MINUTES: usize = 60;

/// The latest minutes that are looked at for what fails.
pub const RECENT: usize = 10;

/// A number with its words, for one thing or several.
fn counted(number: impl Display, one: &str, several: &str) -> String {
    let number = number.to_string();
    let words = if number == "1" { one } else { several };
    format!("{number} {words}")
}

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
}

/// Where more is told about something that needs attention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A page of the agency, below its start page, such as `/webhooks`.
    Page(String),
    /// The section of the runbook with this heading.
    Runbook(&'static str),
}

/// The length of a queue in each minute of the last hour.
#[derive(Clone, Debug)]
pub struct QueueLengths {
    /// The queue, whatever its prefix.
    pub queue: Queue,
    /// Maximum number of messages that waited, the current minute last; 0 for minutes in which no program looked.
    pub most: Vec<i64>,
}

/// A minute and an hour.
const MINUTE: TimeDelta = TimeDelta::minutes(1);
pub(crate) const HOUR: TimeDelta = TimeDelta::hours(1);

/// The minutes of the last hour, the current one last, of a tenant or of all together.
pub async fn last_hour(client: &Client, tenant: Option<TenantId>) -> Result<Vec<ActivityMinute>> {
    last(client, tenant, MINUTE, MINUTES as i32).await
}

/// The last `count` hours, at most 192, the current one last, of a tenant or of all together.
pub async fn last_hours(client: &Client, tenant: Option<TenantId>, count: i32) -> Result<Vec<ActivityMinute>> {
    last(client, tenant, HOUR, count).await
}

async fn last(client: &Client, tenant: Option<TenantId>, period: TimeDelta, count: i32) -> Result<Vec<ActivityMinute>> {
    let first = first_period(clock::database_now(), period, count);
    let tenant = tenant.map_or_else(Uuid::nil, |id| id.0);
    let counted = store::activity::counts(client, tenant, first, period == HOUR).await?;
    let of = |at: DateTime<Utc>| counted.iter().find(|counts| counts.at == at).copied();
    let periods = (0..count).map(|number| first + period * number);
    Ok(periods.map(|at| of(at).unwrap_or(ActivityMinute { at, ..ActivityMinute::default() })).collect())
}

/// The lengths of the queues in the last hour.
pub async fn queue_lengths(client: &Client) -> Result<Vec<QueueLengths>> {
    let first = first_period(clock::database_now(), MINUTE, MINUTES as i32);
    let mut all = Vec::new();
    for queue in Queue::CONSUMED {
        let seen = store::activity::lengths(client, queue, first).await?;
        let of = |at| seen.iter().find(|(minute, _)| *minute == at).map_or(0, |(_, ready)| *ready);
        all.push(QueueLengths { queue, most: (0..MINUTES as i32).map(|number| of(first + MINUTE * number)).collect() });
    }
    Ok(all)
}

/// What the programs saw of the queues last, without asking the broker.
pub async fn queue_states(client: &Client) -> Result<Vec<QueueState>> {
    store::activity::queue_states(client).await
}

/// The sum of a count in the latest minutes.
fn recent(hour: &[ActivityMinute], count: fn(&ActivityMinute) -> i64) -> i64 {
    hour[hour.len().saturating_sub(RECENT)..].iter().map(count).sum()
}

/// When the latest minutes began.
fn since() -> DateTime<Utc> {
    first_period(clock::database_now(), MINUTE, RECENT as i32)
}

/// What failed in the latest minutes, of a tenant or of all together.
pub(crate) async fn recent_failures(client: &Client, tenant: Option<TenantId>) -> Result<Vec<FailureCause>> {
    store::attention::failures(client, tenant.map_or_else(Uuid::nil, |id| id.0), since()).await
}

/// The first moment of the first of `count` minutes or hours, of which the last one is the current one.
pub(crate) fn first_period(now: DateTime<Utc>, period: TimeDelta, count: i32) -> DateTime<Utc> {
    now.duration_trunc(period).unwrap_or(now) - period * (count - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_hour_ends_with_the_current_minute() {
        let now: DateTime<Utc> = "2026-05-01T10:30:59.999Z".parse().unwrap();
        let first = first_period(now, MINUTE, MINUTES as i32);
        assert_eq!(first.to_rfc3339(), "2026-05-01T09:31:00+00:00");
        assert_eq!(first_period(now, HOUR, 24).to_rfc3339(), "2026-04-30T11:00:00+00:00");
    }
}
