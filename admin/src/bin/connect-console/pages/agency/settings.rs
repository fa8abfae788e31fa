//! What an agency's administrators may set themselves.

use crate::context::Change;
use crate::failure::Failure;
use crate::response::redirect;
use admin::tenants::{self, TenantChanges};
use warp::reply::Response;

pub(crate) async fn set(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    // The page offers a list, so another value was not chosen there.
    let discovery = change.form().get("discovery").parse().ok();
    let discovery = discovery.ok_or(Failure::BadRequest("discovery must be true or false"))?;
    let changes = TenantChanges { discovery: Some(discovery), ..TenantChanges::default() };
    let (client, actor) = change.operation();
    tenants::change(client, actor, &context.tenant()?.slug, &changes).await?;
    Ok(redirect(&context.tenant_path("/settings?done=saved")))
}
