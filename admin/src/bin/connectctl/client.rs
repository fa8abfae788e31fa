//! `connectctl client`: everything that is stored of a person, and its erasure (D32).

use crate::arguments::ClientArgs;
use crate::arguments::client::{Command, Erase};
use crate::confirm::confirm;
use crate::context::Context;
use crate::output::Show;
use admin::people::{self, Receipt};
use common::clock;

pub(crate) async fn run(command: Command, context: &mut Context) -> anyhow::Result<()> {
    match command {
        Command::Export(of) => export(&of, context).await,
        Command::Erase(erase) => self::erase(&erase, context).await,
    }
}

async fn export(of: &ClientArgs, context: &mut Context) -> anyhow::Result<()> {
    let broker = context.broker().await?;
    let Context { database, actor, .. } = &mut *context;
    let exported = people::export(database, actor, &broker, &of.tenant.slug, &of.client).await?;
    broker.close().await?;
    context.output.print_document(&exported)
}

async fn erase(erase: &Erase, context: &mut Context) -> anyhow::Result<()> {
    let (slug, id) = (erase.of.tenant.slug.as_str(), erase.of.client.as_str());
    let (master_keys, broker) = (context.master_keys()?, context.broker().await?);
    if !erase.yes {
        confirm(&format!("Erase client {id} of {slug} for good?"), "nothing is erased").await?;
    }
    let mut observer = context.output.observer();
    let Context { database, actor, .. } = &mut *context;
    let receipt = people::erase(database, actor, &master_keys, &broker, (slug, id), &mut observer).await?;
    broker.close().await?;
    context.output.print_one(&receipt)
}

impl Show for Receipt {
    const COLUMNS: &'static [&'static str] = &["Client", "Erased at", "Removed"];

    fn cells(&self) -> Vec<Option<String>> {
        let removed = self.removed.iter().filter(|(_, number)| **number > 0);
        let removed: Vec<String> = removed.map(|(what, number)| format!("{number} {what}")).collect();
        vec![
            Some(self.client_id.to_string()),
            Some(clock::to_text(self.erased_at)),
            (!removed.is_empty()).then(|| removed.join(", ")),
        ]
    }
}
