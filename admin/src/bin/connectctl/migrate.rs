//! `connectctl migrate`.

use crate::arguments::roles::MigrateArgs;
use crate::context::Context;
use crate::output::Show;
use admin::master_key;
use admin::migrations::{self, MigrationReport};
use admin::roles::RolePrefix;
use common::sealed::MasterKey;
use common::settings::{DatabaseSettings, SealingSettings};

pub(crate) async fn run(args: MigrateArgs, context: &mut Context) -> anyhow::Result<()> {
    let output = context.output;
    output.note("Applying schema migrations; waiting for another run, if there is one ...");
    let prefix = args.roles.then(|| RolePrefix::parse(&args.prefix.role_prefix)).transpose()?;
    let Context { database, actor, .. } = &mut *context;
    let mut report = migrations::apply(database, actor, prefix.as_ref(), &mut output.observer()).await?;
    if prefix.is_some() {
        output.note("The programs' roles have their privileges; give each program a user that is a member of its role.");
    }
    if context.optional::<DatabaseSettings, String>("DATABASE_DIRECT_URL")?.is_some() {
        let programs = context.settings::<DatabaseSettings>()?.url.config();
        let role = programs.get_user();
        output.note(
            "Writing the settings of the programs' sessions to their role, for the connection pooler ...",
        );
        migrations::set_role_settings(&mut context.database, &context.actor, role).await?;
        report.role = Some(role.unwrap_or("current").to_owned());
    }
    // Verifies the master key if it is given: a migration does not need it.
    let given: Option<MasterKey> = context.optional::<SealingSettings, _>("CONNECT_MASTER_KEY")?;
    if given.is_some() {
        master_key::verify(&context.database, &context.master_keys()?).await?;
    }
    output.note(if report.applied.is_empty() { "No migration was pending." } else { "Done." });
    output.print_one(&report)
}

impl Show for MigrationReport {
    const COLUMNS: &'static [&'static str] = &["Applied"];

    fn cells(&self) -> Vec<Option<String>> {
        vec![(!self.applied.is_empty()).then(|| self.applied.join(", "))]
    }
}
