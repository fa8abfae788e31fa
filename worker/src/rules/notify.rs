//! What members are told.

use super::Context;
use crate::state::{Notification, NotificationKind, TenantState};
use common::model::LeadId;

/// Tells a member about an enquiry. `text` has no person's data beyond the enquiry number.
pub fn member(
    state: &mut TenantState,
    to: String,
    kind: NotificationKind,
    lead_id: LeadId,
    text: String,
    ctx: &mut Context<'_>,
) {
    let id = (ctx.next_id)();
    state.notifications.push(Notification { id, at: ctx.now, to, kind, lead_id: Some(lead_id), text });
}
