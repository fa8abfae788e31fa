//! The filter of audit records, which is kept in the URL.

use crate::fields::{Fields, with_query};
use crate::pages::time_field::time;
use admin::audit::AuditFilter;
use uuid::Uuid;

/// The names of the filter's fields.
const NAMES: [&str; 4] = ["action", "who", "from", "to"];
/// Longest text that is searched for, in characters.
const TEXT_MAX: usize = 200;

/// A filter as it was typed, and what it selects.
#[derive(Debug)]
pub(super) struct Filter {
    typed: [String; 4],
    pub(super) selected: AuditFilter,
    /// What could not be understood, and is ignored.
    pub(super) faults: Vec<String>,
}

impl Filter {
    /// The filter in the fields of a query or a form, for the records of a tenant or of all.
    pub(super) fn parse(fields: &Fields, tenant: Option<String>) -> Self {
        let typed = NAMES.map(|name| fields.get(name).chars().take(TEXT_MAX).collect::<String>());
        let [action, who, from, to] = &typed;
        let mut faults = Vec::new();
        let mut parsed = |text: &str| {
            let at = time(text);
            if at.is_none() && !text.is_empty() {
                faults.push(format!("time {text:?} is not known"));
            }
            at
        };
        let text = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        let selected = AuditFilter {
            tenant,
            from: parsed(from),
            to: parsed(to),
            action: text(action),
            who: text(who),
            before: Uuid::try_parse(fields.get("before")).ok(),
        };
        Self { typed, selected, faults }
    }

    /// The names of the fields with what was typed.
    pub(super) fn fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
        NAMES.into_iter().zip(self.typed.iter().map(String::as_str))
    }

    /// The value of a field as it was typed.
    pub(super) fn typed(&self, name: &str) -> &str {
        self.fields().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
    }

    /// The path with the filter, and where the page begins.
    pub(super) fn path(&self, base: &str, before: Option<Uuid>) -> String {
        let before = before.map(|id| id.to_string()).unwrap_or_default();
        let fields: Vec<(&str, &str)> = self.fields().chain([("before", before.as_str())]).collect();
        with_query(base, &fields)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_survives_its_url() {
        let fields = Fields::parse(b"action=key.&who=Ana+%26+Bo&from=2026-05-01T10:00&to=soon").unwrap();
        let filter = Filter::parse(&fields, None);
        assert_eq!(filter.faults, ["time \"soon\" is not known"]);
        assert_eq!(
            (filter.selected.action.as_deref(), filter.selected.who.as_deref()),
            (Some("key."), Some("Ana & Bo"))
        );
        let path = filter.path("/audit", Some(Uuid::nil()));
        let again = Filter::parse(&Fields::parse(path.split_once('?').unwrap().1.as_bytes()).unwrap(), None);
        assert_eq!((again.selected.from, again.selected.before), (filter.selected.from, Some(Uuid::nil())));
        assert_eq!(again.typed, filter.typed);
    }
}
