//! What happened in the last hour, and what needs attention: the overview of the settings area.
//!
//! The programs write sums for each minute ([`common::activity`]), so that an overview reads a few rows, however many events and
//! deliveries there are.

mod attention;

pub use crate::store::activity::{ActivityMinute, QueueState};
use crate::{Result, store};
pub use attention::{AgencyAttention, Attention, RECEIVERS_PAGE, RECENT, agency_attention, attention};
pub(crate) use attention::{TIMED_OUT_SECTION, timed_out_requests};
use chrono::{DateTime, DurationRound as _, TimeDelta, Utc};
use common::broker::Queue;
use common::clock;
use common::model::TenantId;
use tokio_postgres::Client;
use uuid::Uuid;

/// Minutes of an overview, the current one included.
pub const MINUTES: usize = 60;

/// The length of a queue in each minute of the last hour.
#[derive(Clone, Debug)]
pub struct QueueLengths {
    /// The queue, whatever its prefix.
    pub queue: Queue,
    /// Maximum number of messages that waited, the current minute last; 0 for minutes in which no program looked.
    pub most: Vec<i64>,
}

/// The minutes of the last hour, the current one last, of a tenant or of all together.
pub async fn last_hour(client: &Client, tenant: Option<TenantId>) -> Result<Vec<ActivityMinute>> {
    let first = first_minute(clock::database_now());
    let counted = store::activity::minutes(client, tenant.map_or_else(Uuid::nil, |id| id.0), first).await?;
    let of = |at: DateTime<Utc>| counted.iter().find(|minute| minute.at == at).copied();
    Ok(minutes(first)
        .map(|at| of(at).unwrap_or(ActivityMinute { at, ..ActivityMinute::default() }))
        .collect())
}

/// The lengths of the queues in the last hour.
pub async fn queue_lengths(client: &Client) -> Result<Vec<QueueLengths>> {
    let first = first_minute(clock::database_now());
    let mut all = Vec::new();
    for queue in Queue::CONSUMED {
        let seen = store::activity::lengths(client, queue, first).await?;
        let of = |at| seen.iter().find(|(minute, _)| *minute == at).map_or(0, |(_, ready)| *ready);
        all.push(QueueLengths { queue, most: minutes(first).map(of).collect() });
    }
    Ok(all)
}

/// What the programs saw of the queues last, without asking the broker.
pub async fn queue_states(client: &Client) -> Result<Vec<QueueState>> {
    store::activity::queue_states(client).await
}

/// The first minute of the last hour.
fn first_minute(now: DateTime<Utc>) -> DateTime<Utc> {
    let current = now.duration_trunc(TimeDelta::minutes(1)).unwrap_or(now);
    current - TimeDelta::minutes(i64::try_from(MINUTES).unwrap_or_default() - 1)
}

fn minutes(first: DateTime<Utc>) -> impl Iterator<Item = DateTime<Utc>> {
    (0_i64..).take(MINUTES).map(move |minute| first + TimeDelta::minutes(minute))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_hour_ends_with_the_current_minute() {
        let now: DateTime<Utc> = "2026-05-01T10:30:59.999Z".parse().unwrap();
        let all: Vec<_> = minutes(first_minute(now)).collect();
        assert_eq!(all.len(), MINUTES);
        assert_eq!(all.first().unwrap().to_rfc3339(), "2026-05-01T09:31:00+00:00");
        assert_eq!(all.last().unwrap().to_rfc3339(), "2026-05-01T10:30:00+00:00");
    }
}
