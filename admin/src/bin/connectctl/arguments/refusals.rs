//! Arguments of `connectctl refusals`.

use super::{Limit, TenantArgs};
use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct RefusalsArgs {
    #[command(flatten)]
    pub(crate) tenant: TenantArgs,
    /// Prefix of a key: only requests that named it
    #[arg(long, value_name = "PREFIX")]
    pub(crate) key: Option<String>,
    #[command(flatten)]
    pub(crate) limit: Limit,
}
