//! `connectctl member`: the advisors of a tenant.

use crate::arguments::member::Command;
use crate::context::Context;
use crate::output::Show;
use admin::input::{MemberEmail, Name};
use admin::members::{self, Member};

pub(crate) async fn run(command: Command, context: &mut Context) -> anyhow::Result<()> {
    let Context { database, output, actor, .. } = context;
    match command {
        Command::Add(add) => {
            let (email, name) = (MemberEmail::parse(&add.email)?, Name::parse(&add.name)?);
            output.print_one(&members::add(database, actor, &add.tenant.slug, &email, &name).await?)
        }
        Command::Remove(remove) => {
            let email = MemberEmail::parse(&remove.email)?;
            output.print_one(&members::remove(database, actor, &remove.tenant.slug, &email).await?)
        }
        Command::List(of) => output.print_list(&members::list(database, &of.slug).await?),
    }
}

impl Show for Member {
    const COLUMNS: &'static [&'static str] = &["Email", "Name", "Active"];

    fn cells(&self) -> Vec<Option<String>> {
        let active = if self.active { "yes" } else { "no" };
        vec![Some(self.email.clone()), Some(self.name.clone()), Some(active.to_owned())]
    }
}
