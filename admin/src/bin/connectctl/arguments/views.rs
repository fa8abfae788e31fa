//! Arguments of the CRM's views of a tenant.

use super::{ClientArgs, LeadArgs, Limit, TenantArgs};
use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use common::model::Stage;

#[derive(Debug, Args)]
pub(crate) struct ClientViewArgs {
    #[command(flatten)]
    pub(crate) of: ClientArgs,
    #[command(flatten)]
    pub(crate) limit: Limit,
}

#[derive(Debug, Args)]
pub(crate) struct LeadViewArgs {
    #[command(flatten)]
    pub(crate) of: LeadArgs,
    #[command(flatten)]
    pub(crate) limit: Limit,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  connectctl notifications --tenant acme --limit 20")]
pub(crate) struct NotificationsArgs {
    #[command(flatten)]
    pub(crate) tenant: TenantArgs,
    #[command(flatten)]
    pub(crate) limit: Limit,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  connectctl pipeline --tenant acme --stage inquiry --campaign spring-2026"
)]
pub(crate) struct PipelineArgs {
    #[command(flatten)]
    pub(crate) tenant: TenantArgs,
    /// Show only leads at this stage
    #[arg(long, value_parser = stages())]
    pub(crate) stage: Option<Stage>,
    /// Show only leads of this marketing campaign
    #[arg(long)]
    pub(crate) campaign: Option<String>,
    #[command(flatten)]
    pub(crate) limit: Limit,
}

fn stages() -> impl TypedValueParser<Value = Stage> {
    PossibleValuesParser::new(Stage::ALL.map(Stage::as_str))
        .try_map(|name| Stage::parse(&name).ok_or_else(|| format!("unknown stage {name:?}")))
}
