//! `connectctl replay`: replays of many deliveries, which the dispatcher executes.

use crate::arguments::replay::{Command, JobId, List};
use crate::context::Context;
use crate::output::Show;
use admin::deliveries::{self, ReplayJob};
use common::clock;

pub(crate) async fn run(command: Command, context: &mut Context) -> anyhow::Result<()> {
    let output = context.output;
    let Context { database, actor, .. } = context;
    match command {
        Command::List(List { tenant, limit }) => {
            output.print_newest(&deliveries::list_replays(database, &tenant.slug, limit).await?, limit)
        }
        Command::Show(JobId { id }) => output.print_one(&deliveries::find_replay(database, &id).await?),
        Command::Stop(JobId { id }) => {
            output.print_one(&deliveries::stop_replay(database, actor, &id).await?)
        }
    }
}

impl Show for ReplayJob {
    const COLUMNS: &'static [&'static str] =
        &["Id", "State", "Matched", "Replayed", "Per second", "Deliveries", "Created at", "Ended at"];

    fn cells(&self) -> Vec<Option<String>> {
        let (from, to) = self.occurred();
        let selected = [
            Some(self.states.join(" and ")),
            self.event_type.clone(),
            self.subscription_id.map(|id| format!("to {id}")),
            from.map(|at| format!("from {}", clock::to_text(at))),
            to.map(|at| format!("before {}", clock::to_text(at))),
        ];
        vec![
            Some(self.id.to_string()),
            Some(self.state.as_str().to_owned()),
            self.matched.map(|matched| matched.to_string()),
            Some(self.replayed.to_string()),
            Some(self.per_second.to_string()),
            Some(selected.into_iter().flatten().collect::<Vec<_>>().join(", ")),
            Some(clock::to_text(self.created_at)),
            self.ended_at.map(clock::to_text),
        ]
    }
}
