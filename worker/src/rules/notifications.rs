//! Notifications of members.

use super::Context;
use crate::state::{Notification, NotificationKind, TenantState};
use common::model::LeadId;

/// Notifies a member about a lead. `text` names the lead by its enquiry number only; it must not contain personal data.
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
