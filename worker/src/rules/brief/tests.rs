use super::*;
use crate::rules::warnings::{BRIEF_FIELD, Warnings};
use serde_json::json;

/// The brief of a payload and the fields that were rejected.
fn read_brief(payload: &Value) -> (Value, Vec<String>) {
    let text = payload.to_string();
    let payload = Payload::object(serde_json::from_str(&text).unwrap()).unwrap();
    let mut warnings = Warnings::default();
    let brief = parse_brief(&mut FieldReader { payload: &payload, kind: BRIEF_FIELD, warnings: &mut warnings });
    let rejected =
        warnings.into_vec().iter().map(|w| w.strip_prefix("brief_field_rejected:").unwrap().into()).collect();
    (serde_json::to_value(brief).unwrap(), rejected)
}

fn raw(text: &str) -> &RawValue {
    serde_json::from_str(text).unwrap()
}

#[test]
fn absent_fields_stay_empty() {
    for payload in [
        json!({}),
        json!({"travelDates": null, "party": null, "paxCount": null, "budget": null, "destination": null}),
        json!({"travelDates": {}, "party": {"adults": null}, "budget": {"amount": null, "notes": " "}}),
        json!({"guestNationality": "", "destination": "", "budget": ""}),
    ] {
        assert_eq!(read_brief(&payload), (json!({}), vec![]), "{payload}");
    }
}

#[test]
fn travel_dates_are_accepted_in_both_forms_and_singly() {
    let both = json!({"startDate": "2027-05-01", "endDate": "2027-05-01"});
    for sent in [
        json!({"start": "2027-05-01", "end": "2027-05-01"}),
        json!({"startDate": "2027-05-01", "endDate": "2027-05-01", "flexible": true}),
        json!({"startDate": "2027-05-01", "end": "2027-05-01", "start": null}),
    ] {
        assert_eq!(read_brief(&json!({"travelDates": sent})).0, json!({"travelDates": both}));
    }
    let alone = read_brief(&json!({"travelDates": {"end": "2027-05-01"}})).0;
    assert_eq!(alone, json!({"travelDates": {"startDate": null, "endDate": "2027-05-01"}}));
}

/// The fields' types and limits are tested against their schemas, in `tests/it/openapi/bodies.rs`.
#[test]
fn an_invalid_part_rejects_the_whole_field() {
    for (field, sent) in [
        ("travelDates", json!({"start": "2027-05-02", "end": "2027-05-01"})),
        ("travelDates", json!({"start": "2027-02-30", "end": "2027-05-01"})),
        ("party", json!({"adults": 2, "children": "1"})),
        ("party", json!({"adults": 2, "childAges": [3, -1]})),
    ] {
        assert_eq!(read_brief(&json!({field: sent})), (json!({}), vec![field.into()]), "{sent}");
    }
}

#[test]
fn a_party_is_kept_as_given() {
    let party = json!({"adults": 2, "children": 0, "childAges": [3, 17], "rooms": 1});
    let mut sent = party.clone();
    sent["pets"] = json!("dog");
    assert_eq!(read_brief(&json!({"party": sent, "paxCount": 9})), (json!({"party": party}), vec![]));
    let part = read_brief(&json!({"party": {"rooms": 2}})).0;
    assert_eq!(part, json!({"party": {"adults": null, "children": null, "childAges": null, "rooms": 2}}));
}

#[test]
fn pax_count_is_kept_as_adults_where_there_is_no_valid_party() {
    let adults = json!({"party": {"adults": 4, "children": null, "childAges": null, "rooms": null}});
    assert_eq!(read_brief(&json!({"paxCount": 4})), (adults.clone(), vec![]));
    assert_eq!(read_brief(&json!({"paxCount": 4, "party": {}})), (adults.clone(), vec![]));
    assert_eq!(read_brief(&json!({"paxCount": 4, "party": 7})), (adults, vec!["party".into()]));
    for wrong in [json!(-4), json!("4"), json!(4.5), json!({}), json!(1e9)] {
        assert_eq!(read_brief(&json!({"paxCount": wrong})), (json!({}), vec!["paxCount".into()]), "{wrong}");
    }
}

#[test]
fn a_budget_in_free_text_is_stored_verbatim_as_notes() {
    for sent in [json!(" about 2k € "), json!({"notes": " about 2k € "})] {
        let notes = json!({"amount": null, "currency": null, "notes": " about 2k € "});
        assert_eq!(read_brief(&json!({"budget": sent})), (json!({"budget": notes}), vec![]));
    }
}

#[test]
fn a_budget_figure_needs_its_currency_and_excludes_notes() {
    let stated = json!({"budget": {"amount": 1500.5, "currency": "INR", "notes": null}});
    let expected = (stated.clone(), vec![]);
    assert_eq!(read_brief(&json!({"budget": {"amount": 1500.5, "currency": "INR"}})), expected);
    assert_eq!(read_brief(&stated), (stated.clone(), vec![]));
    for sent in [
        json!(1500),
        json!({"amount": 1500}),
        json!({"currency": "INR"}),
        json!({"amount": 1, "currency": "INR", "notes": "or so"}),
        json!({"currency": "INR", "notes": "or so"}),
    ] {
        assert_eq!(read_brief(&json!({"budget": sent})), (json!({}), vec!["budget".into()]), "{sent}");
    }
}

#[test]
fn destination_and_nationality_are_checked() {
    let brief = read_brief(&json!({"destination": " Goa ", "guestNationality": "IN"}));
    assert_eq!(brief, (json!({"destination": "Goa", "guestNationality": "IN"}), vec![]));
    let wrong = read_brief(&json!({"destination": "x".repeat(501), "guestNationality": "XX"}));
    assert_eq!(wrong, (json!({}), vec!["destination".into(), "guestNationality".into()]));
    assert_eq!(read_brief(&json!({"destination": ["Goa"], "guestNationality": 1})).1.len(), 2);
}

#[test]
fn attribution_keeps_its_known_fields() {
    let sent = r#"{"source": "ads", "campaign": " Spring ", "gclid": 5, "term": null, "content": ""}"#;
    assert_eq!(attribution(raw(sent)), Ok(Some(json!({"source": "ads", "campaign": " Spring "}))));
    assert_eq!(attribution(raw(r#"{"gclid": 5}"#)), Ok(None));
    let long = json!({"source": "ok", "referrer": "x".repeat(2_001)}).to_string();
    for wrong in ["[]", "\"ads\"", r#"{"source": "ok", "medium": 5}"#, &long] {
        assert_eq!(attribution(raw(wrong)), Err(Rejected), "{wrong}");
    }
}

#[test]
fn external_ids_are_trimmed_and_never_empty() {
    assert_eq!(external_id(raw(r#"" p-7 ""#)), Ok(Some("p-7".to_owned())));
    let long = format!("\"{}\"", "x".repeat(201));
    for wrong in ["7", r#"" ""#, "{}", &long] {
        assert_eq!(external_id(raw(wrong)), Err(Rejected), "{wrong}");
    }
}

#[test]
fn an_itinerary_is_kept_as_sent_if_it_is_valid() {
    let sent = r#"{"days":[{"items":[ {"title":"x", "price":1.50} ],"title":"1"}],  "title":"Goa"}"#;
    assert_eq!(itinerary(raw(sent)), Ok(Some(sent.to_owned())));
    let large = json!({"title": "Goa", "days": [], "note": "x".repeat(256 * 1024)}).to_string();
    for wrong in [r#"{"title":"Goa"}"#, "[]", "5", &large] {
        assert_eq!(itinerary(raw(wrong)), Err(Rejected));
    }
}
