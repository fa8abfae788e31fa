//! Arguments of `connectctl find`.

use clap::Args;

#[derive(Debug, Args)]
pub(crate) struct FindArgs {
    /// Id of an event, request, trace, client, lead, booking or delivery, an enquiry number, or an email
    pub(crate) id: String,
    /// Slug of the tenant; all tenants when not given
    #[arg(long = "tenant", value_name = "SLUG")]
    pub(crate) tenant: Option<String>,
}
