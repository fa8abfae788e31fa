//! `connectctl migrate`.

use crate::context::Context;
use crate::output::Show;
use common::db;
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
    let applied = db::migrate(&mut context.database).await?;
    for name in &applied {
        context.output.note(&format!("applied {name}"));
    }
    context.output.note(if applied.is_empty() { "Nothing to do." } else { "Done." });
    context.output.one(&Report { applied })
}
