//! Assigns leads to advisors (D16), and notifies members.

use super::{Cause, Context, InternalError, lead, outbound};
use crate::state::{Member, Notification, NotificationKind, TenantState};
use common::model::LeadId;
use common::write::WriteRefusal;

/// The member who gets a new lead: active members round-robin, by the sequence of the enquiry number, so that no shared
/// counter is needed.
pub(crate) fn next_round_robin(members: &[Member], sequence: i32) -> Option<&Member> {
    let position = usize::try_from(sequence - 1).unwrap_or_default();
    members.get(position.checked_rem(members.len())?)
}

/// Emits `lead.assigned` and notifies the owner. Does nothing if the lead has no owner.
pub(crate) fn announce_owner(
    state: &mut TenantState, lead_id: LeadId, previous: Option<&str>, cause: &Cause, ctx: &mut Context<'_>,
) -> Result<(), InternalError> {
    let lead = lead::get(state, lead_id)?;
    let Some(owner) = lead.owner.clone() else { return Ok(()) };
    let text = format!("Enquiry {} is assigned to you", lead.enquiry_number);
    outbound::lead_assigned(state, lead_id, previous, cause, ctx)?;
    notify_member(state, owner, NotificationKind::LeadAssigned, lead_id, text, ctx);
    Ok(())
}

/// Refuses an owner who is not an active member of the tenant. `email` must be lower case.
pub(crate) fn check_member(state: &TenantState, email: &str) -> Result<(), WriteRefusal> {
    let is_member = state.members.iter().any(|member| member.email == email);
    is_member.then_some(()).ok_or(WriteRefusal::OwnerNotMember)
}

/// Assigns the lead to a member, emits `lead.assigned` and notifies the member. Does nothing if they own it already.
pub(crate) fn assign(
    state: &mut TenantState, lead_id: LeadId, owner: String, cause: &Cause, ctx: &mut Context<'_>,
) -> Result<(), InternalError> {
    let previous = lead::get(state, lead_id)?.owner.clone();
    if previous.as_ref() == Some(&owner) {
        return Ok(());
    }
    lead::change(state, lead_id, ctx.now, |lead| lead.owner = Some(owner))?;
    // The trip shows the owner as well.
    lead::change_trip(state, lead_id, ctx.now, |_| {});
    announce_owner(state, lead_id, previous.as_deref(), cause, ctx)
}

/// Notifies a member about a lead. `text` names the lead by its enquiry number only; it must not contain personal data.
pub(crate) fn notify_member(
    state: &mut TenantState, to: String, kind: NotificationKind, lead_id: LeadId, text: String, ctx: &mut Context<'_>,
) {
    let id = (ctx.next_id)();
    state.notifications.push(Notification { id, at: ctx.now, to, kind, lead_id: Some(lead_id), text });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing::World;
    use common::event::OutboundType;
    use serde_json::json;

    #[test]
    fn routing_events_have_the_crm_as_origin_and_no_key() {
        let mut world = World::new();
        world.members(&["a@agency.com"]);
        let opened = world.send("enquiry.submitted", json!({"phone": "1"}), json!({"externalLeadId": "p-7"}));
        let [event] = &world.state.outbox[..] else { panic!("one event") };
        assert_eq!(event.event_type, OutboundType::LeadAssigned);
        assert_eq!((event.origin.as_str(), event.key_prefix.as_deref()), ("crm", None));
        assert_eq!(Some(event.client_id), opened.client_id);
        let expected = json!({
            "leadId": opened.lead_id, "tripId": opened.trip_id, "clientId": opened.client_id,
            "enquiryNumber": "ENQ-2026-000001", "externalId": "p-7", "version": "2026-05-01T12:00:00.000Z",
            "owner": {"email": "a@agency.com", "name": "Member a@agency.com"}, "previousOwner": null,
        });
        assert_eq!(event.payload, expected);
        let [told] = &world.state.notifications[..] else { panic!("one notification") };
        assert_eq!((told.kind, told.lead_id), (NotificationKind::LeadAssigned, opened.lead_id));
        assert_eq!(told.text, "Enquiry ENQ-2026-000001 is assigned to you");
    }
}
