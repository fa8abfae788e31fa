//! Valid bodies of the records routes, in all their forms.

use crate::model::Stage;
use chrono::{Days, NaiveDate};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Map, Value, json};

type Fields = Vec<(&'static str, BoxedStrategy<Value>)>;

/// An object with all the required and some of the optional fields.
fn object(required: Fields, optional: Fields) -> BoxedStrategy<Value> {
    let named = |(name, value): (&'static str, BoxedStrategy<Value>)| {
        value.prop_map(move |value| (name.to_owned(), value)).boxed()
    };
    let always: Vec<_> = required.into_iter().map(|field| named(field).prop_map(Some).boxed()).collect();
    let at_times = optional.into_iter().map(|field| option::of(named(field)).boxed());
    let fields: Vec<_> = always.into_iter().chain(at_times).collect();
    fields.prop_map(|fields| Value::Object(fields.into_iter().flatten().collect::<Map<String, Value>>())).boxed()
}

fn value<T: Into<Value> + 'static>(strategy: impl Strategy<Value = T> + 'static) -> BoxedStrategy<Value> {
    strategy.prop_map(Into::into).boxed()
}

fn text() -> BoxedStrategy<Value> {
    value(" ?[A-Za-z0-9äß\"\\\\🌴][A-Za-z0-9äß ,.'\n-]{0,30}")
}

fn email() -> BoxedStrategy<Value> {
    value(" ?[A-Za-z0-9]{0,8}[a-z]@[a-z]{1,8}\\.(com|de|co\\.in) ?")
}

fn phone() -> BoxedStrategy<Value> {
    value("\\+?[0-9][0-9 ()-]{0,15}")
}

fn flag() -> BoxedStrategy<Value> {
    value(any::<bool>())
}

fn count() -> BoxedStrategy<Value> {
    value(0..=1_000_u32)
}

fn array(item: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    value(vec(item, 0..5))
}

fn travel_dates() -> BoxedStrategy<Value> {
    let date = |days: u64| (NaiveDate::from_ymd_opt(2026, 1, 1).unwrap() + Days::new(days)).to_string();
    prop_oneof![
        (0..5_000_u64).prop_map(move |start| json!({"startDate": date(start)})),
        (0..5_000_u64).prop_map(move |end| json!({"endDate": date(end)})),
        (0..5_000_u64, 0..99_u64)
            .prop_map(move |(start, length)| { json!({"startDate": date(start), "endDate": date(start + length)}) }),
    ]
    .boxed()
}

fn party() -> BoxedStrategy<Value> {
    let rest = || vec![("children", count()), ("childAges", array(count()))];
    prop_oneof![
        object(vec![("adults", count())], [rest(), vec![("rooms", count())]].concat()),
        object(vec![("rooms", count())], rest()),
    ]
    .boxed()
}

fn budget() -> BoxedStrategy<Value> {
    let amount = prop_oneof![
        value(0..1_000_000_000_000_000_u64),
        value((0..1_000_000_000_000_u64).prop_map(|cents| cents as f64 / 100.0))
    ]
    .boxed();
    let currency = value(select(vec!["INR", "EUR", "USD", "JPY"]));
    prop_oneof![
        object(vec![("amount", amount), ("currency", currency)], vec![]),
        object(vec![("notes", text())], vec![]),
    ]
    .boxed()
}

fn nationality() -> BoxedStrategy<Value> {
    value(select(vec!["", "IN", "DE", "US", "NP"]))
}

/// Any JSON, such as an item of an itinerary may bring.
fn anything() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![Just(Value::Null), flag(), text(), value(any::<i64>())];
    leaf.prop_recursive(3, 12, 3, |inner| {
        prop_oneof![array(inner.clone()), object(vec![], vec![("a", inner.clone()), ("b", inner)])]
    })
    .boxed()
}

fn itinerary() -> BoxedStrategy<Value> {
    let item = object(vec![("title", text())], vec![("note", anything()), ("cost", anything())]);
    let day = object(vec![("title", text()), ("items", array(item))], vec![]);
    object(vec![("title", text()), ("days", array(day))], vec![])
}

fn person() -> Fields {
    vec![("name", text()), ("email", email()), ("phone", phone()), ("externalId", text())]
}

fn traveler() -> BoxedStrategy<Value> {
    let kind = value(select(vec!["adult", "child", "infant"]));
    let age = value(0..=150_u32);
    let optional = vec![("type", kind), ("age", age), ("email", email()), ("phone", phone())];
    object(vec![("name", text())], optional)
}

fn attribution() -> BoxedStrategy<Value> {
    let names = ["source", "medium", "campaign", "term", "content", "landingPath", "referrer"];
    object(vec![], names.map(|name| (name, value("[a-z/ ]{0,9}"))).to_vec())
}

fn trip_fields() -> Fields {
    vec![
        ("title", text()),
        ("destination", text()),
        ("travelDates", travel_dates()),
        ("party", party()),
        ("budget", budget()),
        ("guestNationality", nationality()),
        ("itinerary", itinerary()),
        ("message", text()),
    ]
}

pub(super) fn client() -> BoxedStrategy<Value> {
    let roster = value(vec(traveler(), 0..5));
    let more = vec![("company", text()), ("marketingOptIn", flag()), ("travelers", roster)];
    object(vec![], [person(), more].concat())
}

pub(super) fn lead() -> BoxedStrategy<Value> {
    let contact = object(vec![], person());
    let more = vec![("contact", contact), ("clientId", text()), ("externalId", text()), ("attribution", attribution())];
    object(vec![], [trip_fields(), more].concat())
}

pub(super) fn lead_patch() -> BoxedStrategy<Value> {
    let stage = value(select(Stage::ALL.map(Stage::as_str).to_vec()));
    let reason = value("[a-z ]{0,20}");
    let fields =
        vec![("stage", stage), ("reason", reason), ("owner", email()), ("followUp", flag()), ("title", text())];
    object(vec![], fields)
}

pub(super) fn trip_patch() -> BoxedStrategy<Value> {
    object(vec![], [trip_fields(), vec![("changeSummary", text())]].concat())
}
