//! Arguments of `connectctl refusals`.

use super::{Limit, OfTenant};
use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct RefusalsArgs {
    #[command(flatten)]
    pub(crate) tenant: OfTenant,
    /// Prefix of a key: only requests that named it
    #[arg(long, value_name = "PREFIX")]
    pub(crate) key: Option<String>,
    #[command(flatten)]
    pub(crate) limit: Limit,
}
