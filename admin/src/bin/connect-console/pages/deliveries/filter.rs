//! The filter of deliveries, which is kept in the URL.

use crate::fields::{Fields, with_query};
use crate::pages::time_field::time;
use admin::deliveries::DeliveryQuery;
use common::event::OutboundType;
use common::model::DeliveryState;
use uuid::Uuid;

/// The names of the filter's fields.
const NAMES: [&str; 5] = ["state", "type", "subscription", "from", "to"];

/// A filter as it was typed, and what it selects.
#[derive(Debug)]
pub(super) struct Filter {
    typed: [String; 5],
    pub(super) query: DeliveryQuery,
    /// What could not be understood, and is ignored.
    pub(super) faults: Vec<String>,
}

impl Filter {
    /// The filter in the fields of a query or a form.
    pub(super) fn parse(fields: &Fields) -> Self {
        let typed = NAMES.map(|name| fields.get(name).to_owned());
        let [state, event_type, subscription, from, to] = &typed;
        let mut faults = Vec::new();
        let query = DeliveryQuery {
            state: parse(state, DeliveryState::parse, "state", &mut faults),
            event_type: parse(event_type, OutboundType::parse, "event type", &mut faults),
            subscription: parse(subscription, |text| Uuid::try_parse(text).ok(), "subscription", &mut faults),
            from: parse(from, time, "time", &mut faults),
            to: parse(to, time, "time", &mut faults),
            before: parse(fields.get("before"), |text| Uuid::try_parse(text).ok(), "page", &mut faults),
        };
        Self { typed, query, faults }
    }

    /// The value of a field as it was typed.
    pub(super) fn typed(&self, name: &str) -> &str {
        NAMES.iter().position(|known| *known == name).map_or("", |index| &self.typed[index])
    }

    /// The path with the filter, and where the page begins.
    pub(super) fn path(&self, base: &str, before: Option<Uuid>) -> String {
        let before = before.map(|id| id.to_string()).unwrap_or_default();
        let mut fields: Vec<(&str, &str)> = self.fields().collect();
        fields.push(("before", &before));
        with_query(base, &fields)
    }

    /// The names of the fields with what was typed.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
        NAMES.into_iter().zip(self.typed.iter().map(String::as_str))
    }
}

fn parse<T>(
    text: &str,
    parse: impl Fn(&str) -> Option<T>,
    what: &str,
    faults: &mut Vec<String>,
) -> Option<T> {
    if text.is_empty() {
        return None;
    }
    let parsed = parse(text);
    if parsed.is_none() {
        faults.push(format!("{what} {text:?} is not known"));
    }
    parsed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_survives_its_url() {
        let url = b"state=dead&type=lead.assigned&from=2026-05-01T10:00&to=2026-05-01T12:00:00%2B02:00";
        let filter = Filter::parse(&Fields::parse(url).unwrap());
        assert_eq!(filter.faults, Vec::<String>::new());
        assert_eq!(filter.query.from, filter.query.to);
        let path = filter.path("/d", Some(Uuid::nil()));
        let again = Filter::parse(&Fields::parse(path.split_once('?').unwrap().1.as_bytes()).unwrap());
        assert_eq!(again.query, DeliveryQuery { before: Some(Uuid::nil()), ..filter.query });
    }

    #[test]
    fn what_is_not_understood_is_named() {
        let filter = Filter::parse(&Fields::parse(b"state=lost&from=yesterday&subscription=1").unwrap());
        assert_eq!(filter.faults.len(), 3, "{:?}", filter.faults);
        assert_eq!(filter.query, DeliveryQuery::default());
    }
}
