//! Advisor actions.

use super::{MEMBERS, NEW_LEAD, Recorded, email, loads, writes};
use serde_json::{Value, json};
use tests::{event, text};
use uuid::Uuid;

/// What an action on a lead loads, after BEGIN.
pub(super) const OF_LEAD: [&str; 6] =
    ["clients.lock", "tenants.load", "members.load", "ledger.load", "clients.load_named", "leads.load"];

impl Recorded {
    /// Opens a lead and returns its id.
    pub(super) async fn lead(&self) -> String {
        let opened = self.world.accept(event("enquiry.submitted").email(&email())).await;
        text(&opened["leadId"]).to_owned()
    }
}

pub(super) fn action(name: &str, mut fields: Value) -> Value {
    fields["action"] = name.into();
    fields["tenant"] = "acme".into();
    fields
}

fn offer(lead: &str) -> Value {
    action(
        "proposal-send",
        json!({"lead": lead, "title": "Goa", "url": "https://example.com/p", "channel": "email"}),
    )
}

fn booking(lead: &str, booking_ref: &str) -> Value {
    let price = json!({"lead": lead, "bookingRef": booking_ref, "amount": 1000, "currency": "INR"});
    action("booking-confirm", price)
}

#[tokio::test]
async fn an_action_that_opens_a_lead_takes_two_round_trips() {
    let recorded = Recorded::start().await;
    let open = async || action("open-lead", json!({"email": email(), "name": "Ana"}));
    // No event of the traveler's: nothing is written to the timeline.
    let expected: Vec<&str> = NEW_LEAD.into_iter().filter(|name| *name != "timeline.insert").collect();
    assert_eq!(recorded.action(open).await, [loads(&MEMBERS), writes(&expected)]);
}

#[tokio::test]
async fn actions_on_a_lead_and_its_proposal_take_two_round_trips() {
    let recorded = Recorded::start().await;
    let stage_changed = writes(&["ledger.insert", "leads.update", "trips.update"]);
    let proposal_changed = writes(&["ledger.insert", "leads.update", "trips.update", "proposals.update"]);

    let assign = async || {
        let lead = recorded.lead().await;
        let query = "SELECT owner_email FROM leads WHERE lead_id::text = $1";
        let owner = recorded.world.database.rows(query, &[&lead]).await.remove(0);
        let other = if owner["owner_email"] == "asha@acme.test" { "ben@acme.test" } else { "asha@acme.test" };
        action("assign", json!({"lead": lead, "owner": other}))
    };
    let expected = ["ledger.insert", "leads.update", "trips.update", "notifications.insert"];
    assert_eq!(recorded.action(assign).await, [loads(&OF_LEAD), writes(&expected)]);

    let stage = async || action("stage", json!({"lead": recorded.lead().await, "stage": "negotiation"}));
    assert_eq!(recorded.action(stage).await, [loads(&OF_LEAD), stage_changed.clone()]);
    for name in ["archive", "travelled"] {
        let put = async || action(name, json!({"lead": recorded.lead().await}));
        assert_eq!(recorded.action(put).await, [loads(&OF_LEAD), stage_changed.clone()], "{name}");
    }

    let send = async || offer(&recorded.lead().await);
    assert_eq!(recorded.action(send).await, [loads(&OF_LEAD), proposal_changed.clone()]);
    let view = async || {
        let lead = recorded.lead().await;
        recorded.act(&offer(&lead)).await;
        action("proposal-view", json!({"lead": lead}))
    };
    assert_eq!(recorded.action(view).await, [loads(&OF_LEAD), proposal_changed.clone()]);
    let discard = async || action("proposal-discard", json!({"lead": recorded.lead().await}));
    assert_eq!(recorded.action(discard).await, [loads(&OF_LEAD), proposal_changed]);
}

#[tokio::test]
async fn actions_on_a_booking_load_its_invoice_in_the_same_round_trip() {
    let recorded = Recorded::start().await;
    let mut loaded = OF_LEAD.to_vec();
    loaded.insert(1, "invoices.load");
    let confirm = async || booking(&recorded.lead().await, &Uuid::now_v7().to_string());
    let expected = ["ledger.insert", "leads.update", "trips.update", "invoices.insert"];
    assert_eq!(recorded.action(confirm).await, [loads(&loaded), writes(&expected)]);

    let cancel = async || {
        let booking_ref = Uuid::now_v7().to_string();
        recorded.act(&booking(&recorded.lead().await, &booking_ref)).await;
        action("booking-cancel", json!({"bookingRef": booking_ref, "reason": "changed plans"}))
    };
    assert_eq!(
        recorded.action(cancel).await,
        [loads(&loaded), writes(&["ledger.insert", "invoices.update"])]
    );
}
