//! Notifications of members.

use super::Context;
use crate::state::{Notification, NotificationKind, TenantState};
use common::model::LeadId;

/// Notifies a member about a lead. `text` must not contain personal data beyond the enquiry number.
pub(crate) fn notify_member(
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
