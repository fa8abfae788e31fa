//! Every rule of the actions' bodies.

use super::*;
use serde_json::{Value, json};

/// A valid body of each action, with every field it can have.
fn bodies() -> Vec<Value> {
    let lead = "0190a5b2-0000-7000-8000-000000000001";
    vec![
        json!({"action": "open-lead", "tenant": "acme", "email": "Ana@Example.com", "name": "Ana", "noTrip": true,
               "title": "Goa in May", "destination": "Goa"}),
        json!({"action": "open-lead", "tenant": "acme", "client": lead}),
        json!({"action": "assign", "tenant": "acme", "lead": lead, "owner": "Asha@acme.test"}),
        json!({"action": "stage", "tenant": "acme", "lead": lead, "stage": "lost", "reason": "too dear"}),
        json!({"action": "archive", "tenant": "acme", "lead": lead}),
        json!({"action": "travelled", "tenant": "acme", "lead": lead}),
        json!({"action": "proposal-send", "tenant": "acme", "lead": lead, "title": "Goa", "channel": "email",
               "url": "https://proposals.example/p/1"}),
        json!({"action": "proposal-view", "tenant": "acme", "lead": lead}),
        json!({"action": "proposal-discard", "tenant": "acme", "lead": lead}),
        json!({"action": "booking-confirm", "tenant": "acme", "lead": lead, "bookingRef": "BR-1",
               "amount": 1234.5, "currency": "INR", "creditUsed": 100}),
        json!({"action": "booking-cancel", "tenant": "acme", "bookingRef": "BR-1", "reason": "illness"}),
    ]
}

fn read(body: &Value) -> Result<AdvisorAction, String> {
    faults_of(body.to_string().as_bytes())
}

fn faults_of(body: &[u8]) -> Result<AdvisorAction, String> {
    AdvisorAction::parse(body).map_err(|refusal| {
        let WriteRefusal::InvalidRequest { faults } = refusal else { panic!("{refusal:?}") };
        faults
    })
}

fn with(action: &str, field: &str, value: Value) -> Value {
    let mut body = bodies().into_iter().rfind(|body| body["action"] == action).unwrap();
    body[field] = value;
    body
}

#[test]
fn every_action_is_read_under_its_name() {
    let mut names: Vec<ActionName> = Vec::new();
    for body in bodies() {
        let AdvisorAction { tenant, action } = read(&body).unwrap();
        assert_eq!((tenant.as_str(), body["action"].as_str()), ("acme", Some(action.name().as_str())));
        assert_eq!(action.lead(), body["lead"].as_str(), "{body}");
        assert_eq!(action.booking_ref(), body["bookingRef"].as_str(), "{body}");
        assert_eq!(action.name().ledger_event_type(), format!("advisor.{}", action.name().as_str()));
        names.push(action.name());
    }
    names.dedup();
    assert_eq!(names, ActionName::ALL);
}

#[test]
fn a_missing_required_field_is_named() {
    let optional = ["name", "noTrip", "title", "destination", "reason", "creditUsed"];
    for body in bodies() {
        let fields: Vec<String> = body.as_object().unwrap().keys().cloned().collect();
        for field in fields {
            let mut without = body.clone();
            without.as_object_mut().unwrap().remove(&field);
            let is_optional = optional.contains(&field.as_str()) && body["action"] != "proposal-send";
            let expected = match field.as_str() {
                "client" | "email" => Err("body: must have either client or email".to_owned()),
                _ if is_optional => Ok(()),
                "amount" => Err("amount: is required with currency".to_owned()),
                "currency" => Err("currency: is required with amount".to_owned()),
                _ => Err(format!("{field}: is required")),
            };
            assert_eq!(read(&without).map(drop), expected, "{without}");
        }
    }
}

#[test]
fn every_action_rejects_null_unknown_and_repeated_fields() {
    for body in bodies() {
        for field in body.as_object().unwrap().keys() {
            let mut null = body.clone();
            null[field] = Value::Null;
            assert_eq!(read(&null).map(drop), Err(format!("{field}: must not be null")), "{null}");
            let value = &body[field];
            let twice = body.to_string().replacen('{', &format!("{{\"{field}\":{value},"), 1);
            let fault = format!("{field}: is given more than once");
            assert_eq!(faults_of(twice.as_bytes()).map(drop), Err(fault), "{twice}");
        }
        let mut unknown = body.clone();
        unknown["leadId"] = json!(1);
        assert_eq!(read(&unknown).map(drop), Err("leadId: is not a known field".to_owned()));
    }
}

#[test]
fn rejects_values_of_the_wrong_form() {
    let lead_and = "must have either client or email";
    let stages = "must be one of inquiry, follow_up, building_proposal, negotiation, proposal_approved, \
                  trip_booked, travelled, lost, archived";
    for (action, field, value, fault) in [
        ("archive", "lead", json!(7), "lead: must be a string"),
        ("archive", "lead", json!(" "), "lead: must not be empty"),
        ("archive", "lead", json!("x".repeat(201)), "lead: must have at most 200 characters"),
        ("archive", "tenant", json!("x".repeat(101)), "tenant: must have at most 100 characters"),
        ("assign", "owner", json!("asha"), "owner: must be an email address"),
        ("stage", "stage", json!("won"), &format!("stage: {stages}")),
        ("stage", "reason", json!("x".repeat(2_001)), "reason: must have at most 2000 characters"),
        ("proposal-send", "title", json!("x".repeat(201)), "title: must have at most 200 characters"),
        ("proposal-send", "channel", json!(""), "channel: must not be empty"),
        ("proposal-send", "url", json!("example"), "url: must begin with https://"),
        ("booking-confirm", "bookingRef", json!("x".repeat(101)), "bookingRef: must have at most 100 characters"),
        ("booking-confirm", "currency", json!("RS"), "currency: must be an ISO 4217 currency code"),
        ("booking-cancel", "reason", json!(" "), "reason: must not be empty"),
        ("open-lead", "email", json!("a@b.c"), "client: cannot be combined with email or name"),
        ("open-lead", "name", json!("Ana"), "client: cannot be combined with email or name"),
        ("open-lead", "noTrip", json!("true"), "noTrip: must be true or false"),
    ] {
        let found = read(&with(action, field, value)).map(drop);
        assert_eq!(found, Err(fault.to_owned()), "{action} {field}");
    }
    let nobody = json!({"action": "open-lead", "tenant": "acme", "name": "Ana"});
    assert_eq!(read(&nobody).map(drop), Err(format!("body: {lead_and}")));
}

#[test]
fn an_amount_is_a_number_or_a_string_of_digits() {
    let amount = |value: Value| match read(&with("booking-confirm", "amount", value)) {
        Ok(AdvisorAction { action: Action::BookingConfirm(booking), .. }) => Ok(booking.price.unwrap().0.hundredths()),
        Ok(other) => panic!("{other:?}"),
        Err(fault) => Err(fault),
    };
    let amounts = r#"0=0 12=1200 12.34=1234 0.1=10 1.005=101 9999999999999.99=999999999999999
        "12"=1200 "12.34"=1234 "007.10"=710 "9999999999999.99"=999999999999999"#;
    for (value, cents) in amounts.split_whitespace().map(|row| row.split_once('=').unwrap()) {
        assert_eq!(amount(serde_json::from_str(value).unwrap()), Ok(cents.parse().unwrap()), "{value}");
    }
    let form = "amount: must be a number or a string of digits such as 1234.50";
    for value in ["", " ", "1e3", "-1", "+1", "1,000", "1.", ".5", "1.2.3", "12 INR", "\u{664}"] {
        assert_eq!(amount(json!(value)), Err(form.to_owned()), "{value}");
    }
    for value in [json!(true), json!([1]), json!({}), json!("1".repeat(41))] {
        assert_eq!(amount(value.clone()), Err(form.to_owned()), "{value}");
    }
    let (negative, large) = ("amount: must not be negative", "amount: must be below 10000000000000");
    let long = "amount: must have at most 15 significant digits";
    for (value, what) in [
        (json!(-1), negative),
        (json!(-0.01), negative),
        (json!(10_000_000_000_000_u64), large),
        (json!(1e300), large),
        (json!("10000000000000"), large),
        (json!("1.234567890123456"), long),
        (json!(1_234_567_890_123_456_u64), long),
    ] {
        assert_eq!(amount(value.clone()), Err(what.to_owned()), "{value}");
    }
}
