//! Adding members, and turning them off and on.

use super::show;
use crate::context::Change;
use crate::failure::Failure;
use crate::pages::form::Faults;
use crate::response::redirect;
use admin::input::{MemberEmail, Name};
use admin::members;
use hyper::StatusCode;
use warp::reply::Response;

pub(crate) async fn add(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let mut faults = Faults::none();
    let email = faults.check("email", MemberEmail::parse(change.form().get("email")));
    let name = faults.check("name", Name::parse(change.form().get("name")));
    let (Some(email), Some(name)) = (email, name) else { return refuse(&change, &faults).await };
    let (client, actor) = change.operation();
    members::add(client, actor, &context.tenant()?.slug, &email, &name).await?;
    Ok(redirect(&context.tenant_path("/settings?done=member-added")))
}

pub(crate) async fn remove(mut change: Change<'_>) -> Result<Response, Failure> {
    let context = change.context();
    let mut faults = Faults::none();
    let email = faults.check("email", MemberEmail::parse(change.form().get("email")));
    let Some(email) = email else { return refuse(&change, &faults).await };
    let (client, actor) = change.operation();
    members::remove(client, actor, &context.tenant()?.slug, &email).await?;
    Ok(redirect(&context.tenant_path("/settings?done=member-removed")))
}

async fn refuse(change: &Change<'_>, faults: &Faults) -> Result<Response, Failure> {
    show::with_faults(change.view(), StatusCode::UNPROCESSABLE_ENTITY, Some(change.form()), faults).await
}
