//! What happened in the last hour or days: requests, events, attempts at webhooks, and the lengths of the queues.
//!
//! The programs write sums for each minute ([`common::activity`]), so that a page reads a few rows, however many events and
//! deliveries there are.

pub use crate::store::activity::ActivityMinute;
use crate::{Result, store};
use chrono::{DateTime, DurationRound as _, TimeDelta, Utc};
use common::broker::Queue;
use common::clock;
use common::model::TenantId;
use tokio_postgres::Client;
use uuid::Uuid;

/// Minutes of the last hour, the current one included.
pub(crate) const MINUTES: usize = 60;

/// The length of a queue in each minute of the last hour.
#[derive(Clone, Debug)]
pub struct QueueLengths {
    /// The queue, whatever its prefix.
    pub queue: Queue,
    /// Maximum number of messages that waited, the current minute last; 0 for minutes in which no program looked.
    pub most: Vec<i64>,
}

pub(crate) const MINUTE: TimeDelta = TimeDelta::minutes(1);
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
