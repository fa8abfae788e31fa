//! Moving a lead between stages: the only place where a stage changes.

use super::{Cause, Context, InternalError, lead, outbound};
use crate::state::TenantState;
use common::model::{LeadId, Stage, text};
use common::write::WriteRefusal;

/// Shortest reason for a lost lead, in characters (specification: Limits).
const REASON_MIN: usize = 5;

/// Characters that somebody can see, and the white space between them (D40).
fn visible_chars(reason: &str) -> usize {
    reason.trim().chars().filter(|c| c.is_whitespace() || !text::is_invisible(*c)).count()
}

/// Refuses moves that no caller may request: to `lost` without a reason, or to work on a proposal without a trip
/// (specification: States and transitions). `reason` must be trimmed. The API may set fewer stages than an advisor, see
/// `records::lead::check_stage_of_api` (D21).
pub(crate) fn check_move(
    state: &TenantState, lead_id: LeadId, to: Stage, reason: Option<&str>,
) -> Result<(), WriteRefusal> {
    match to {
        Stage::BuildingProposal | Stage::Negotiation => {
            lead::trip_id(state, lead_id).map(drop).ok_or(WriteRefusal::StageNotAllowed)
        }
        Stage::Lost if reason.is_some_and(|reason| visible_chars(reason) >= REASON_MIN) => Ok(()),
        Stage::Lost => Err(WriteRefusal::ReasonRequired),
        Stage::Inquiry
        | Stage::FollowUp
        | Stage::ProposalApproved
        | Stage::TripBooked
        | Stage::Travelled
        | Stage::Archived => Ok(()),
    }
}

/// Moves the lead, and with it its trip, to a stage and emits `lead.stage_changed` (D25). Returns whether it moved: it
/// does not if it is at that stage already. The caller must check whether the move is allowed.
///
/// The event contains `reason`; a lost lead keeps it.
pub(crate) fn move_to(
    state: &mut TenantState, lead_id: LeadId, to: Stage, reason: Option<&str>, cause: &Cause, ctx: &mut Context<'_>,
) -> Result<bool, InternalError> {
    let from = lead::get(state, lead_id)?.stage;
    if from == to {
        return Ok(false);
    }
    lead::change(state, lead_id, ctx.now, |lead| {
        lead.stage = to;
        lead.lost_reason = reason.filter(|_| to == Stage::Lost).map(str::to_owned);
    })?;
    lead::change_trip(state, lead_id, ctx.now, |_| {});
    outbound::lead_stage_changed(state, lead_id, (from, to), reason, cause, ctx)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rules::testing::World;
    use serde_json::json;

    fn opened() -> (World, LeadId) {
        let mut world = World::new();
        world.members(&[]);
        let lead = world.send("enquiry.submitted", json!({"phone": "1"}), json!({})).lead_id.unwrap();
        (world, lead)
    }

    #[test]
    fn the_reason_is_kept_while_the_lead_is_lost() {
        let (mut world, lead) = opened();
        let cause = Cause::crm(world.now);
        world.run(|state, ctx| move_to(state, lead, Stage::Lost, Some("too dear"), &cause, ctx)).unwrap();
        assert_eq!(world.lead(lead).lost_reason.as_deref(), Some("too dear"));
        world.run(|state, ctx| move_to(state, lead, Stage::Inquiry, Some("is back"), &cause, ctx)).unwrap();
        assert_eq!(world.lead(lead).lost_reason, None);
    }

    #[test]
    fn a_reason_has_five_characters_of_which_invisible_ones_do_not_count() {
        for (reason, expected) in [
            ("abcde", Ok(())),
            ("a b c", Ok(())),
            ("\u{592a}\u{3000}\u{8d35}\u{3000}\u{4e86}", Ok(())),
            (" abcd ", Err(WriteRefusal::ReasonRequired)),
            ("abcd\u{200b}", Err(WriteRefusal::ReasonRequired)),
        ] {
            let (world, lead) = opened();
            assert_eq!(check_move(&world.state, lead, Stage::Lost, Some(reason)), expected, "{reason:?}");
        }
    }
}
