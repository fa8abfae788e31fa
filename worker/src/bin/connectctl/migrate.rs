//! `connectctl migrate`.

use crate::context::Context;
use crate::output::Show;
use crate::sealing;
use common::db::Migrations;
use common::sealed::MasterKey;
use common::settings::SealingSettings;
use serde::Serialize;

#[derive(Serialize)]
struct Report {
    applied: Vec<String>,
}

impl Show for Report {
    const COLUMNS: &'static [&'static str] = &["Applied"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![(!self.applied.is_empty()).then(|| self.applied.join(", "))]
    }
}

pub(crate) async fn run(context: &mut Context) -> anyhow::Result<()> {
    context.output.note("Bringing the schema up to date; another run that is under way is waited for ...");
    let mut migrations = Migrations::begin(&mut context.database).await?;
    let mut progress = context.output.progress("migrations applied:", migrations.left() as u64);
    let mut applied = Vec::new();
    while let Some(name) = migrations.next_name() {
        progress.next(&name);
        migrations.apply_next().await?;
        applied.push(name);
    }
    migrations.end().await?;
    // Its first use, where it is given: whoever migrates need not have it.
    let master_key: Option<MasterKey> = context.optional::<SealingSettings, _>("CONNECT_MASTER_KEY")?;
    if let Some(master_key) = master_key {
        sealing::verify(&context.database, &master_key).await?;
    }
    progress.end(applied.len() as u64);
    context.output.note(if applied.is_empty() { "Nothing to do." } else { "Done." });
    context.output.one(&Report { applied })
}
