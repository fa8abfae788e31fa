//! Filters of lists, which are kept in the URL.

use crate::fields::{Fields, with_query};
use chrono::{DateTime, Datelike as _, NaiveDateTime, Utc};
use common::model::parse_instant;
use maud::{Markup, html};
use uuid::Uuid;

/// Longest text of a field, in characters.
const TEXT_MAX: usize = 200;

/// The fields of a filter as they were typed.
#[derive(Debug)]
pub(crate) struct Typed {
    values: Vec<(&'static str, String)>,
    /// What could not be understood, and is ignored.
    faults: Vec<String>,
}

/// A filter as it was typed, and what it selects.
#[derive(Debug)]
pub(crate) struct Filter<S> {
    typed: Typed,
    pub(crate) selected: S,
}

impl Typed {
    /// What was typed into a field; `None` if it is empty.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        let value = self.values.iter().find(|(known, _)| *known == name).map(|(_, value)| value.clone());
        value.filter(|value| !value.is_empty())
    }

    /// The value of a field; `what` names it where it cannot be understood.
    pub(crate) fn parse<T>(&mut self, name: &str, what: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        let text = self.text(name)?;
        let parsed = parse(&text);
        if parsed.is_none() {
            self.faults.push(format!("{what} {text:?} is not known"));
        }
        parsed
    }

    /// [`parse`](Self::parse) of a field that has these values, which a fault names.
    pub(crate) fn choice<T>(
        &mut self, name: &str, what: &str, values: &[&str], parse: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let before = self.faults.len();
        let parsed = self.parse(name, what, parse);
        self.faults[before..].iter_mut().for_each(|fault| fault.push_str(&format!(": choose {}", values.join(", "))));
        parsed
    }

    /// The times `from` and `to`. If the period ends before it begins, it is ignored.
    pub(crate) fn period(&mut self) -> (Option<DateTime<Utc>>, Option<DateTime<Utc>>) {
        let (from, to) = (self.time("from"), self.time("to"));
        if from.zip(to).is_some_and(|(from, to)| from > to) {
            self.faults.push("\"from\" is after \"to\"".to_owned());
            return (None, None);
        }
        (from, to)
    }

    /// The value of a field that [`parse_time`] reads.
    fn time(&mut self, name: &str) -> Option<DateTime<Utc>> {
        self.parse(name, "time", parse_time)
    }
}

/// A time as browsers send it (`2026-05-01T10:00`, taken as UTC), or in RFC 3339.
pub(super) fn parse_time(text: &str) -> Option<DateTime<Utc>> {
    let formats = ["%Y-%m-%dT%H:%M", "%Y-%m-%dT%H:%M:%S"];
    let naive = || formats.iter().find_map(|format| NaiveDateTime::parse_from_str(text, format).ok());
    let is_in_range = |at: &DateTime<Utc>| (1..=9_999).contains(&at.year());
    parse_instant(text).or_else(|| naive().map(|at| at.and_utc())).filter(is_in_range)
}

impl<S> Filter<S> {
    /// The filter in the fields of a query or a form.
    pub(crate) fn parse(fields: &Fields, names: &[&'static str], select: impl FnOnce(&mut Typed) -> S) -> Self {
        let typed = |name: &&'static str| (*name, fields.get(name).chars().take(TEXT_MAX).collect());
        let mut typed = Typed { values: names.iter().map(typed).collect(), faults: Vec::new() };
        Self { selected: select(&mut typed), typed }
    }

    /// What could not be understood, and is ignored.
    pub(crate) fn faults(&self) -> &[String] {
        &self.typed.faults
    }

    /// The names of the fields with what was typed.
    pub(crate) fn fields(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.typed.values.iter().map(|(name, value)| (*name, value.as_str()))
    }

    /// The value of a field as it was typed.
    pub(crate) fn typed(&self, name: &str) -> &str {
        self.fields().find(|(known, _)| *known == name).map_or("", |(_, value)| value)
    }

    /// The path with the filter, and where the page begins.
    pub(crate) fn path(&self, base: &str, before: Option<Uuid>) -> String {
        let before = before.map(|id| id.to_string()).unwrap_or_default();
        let fields: Vec<(&str, &str)> = self.fields().chain([("before", before.as_str())]).collect();
        with_query(base, &fields)
    }
}

/// A link to the page of `path` that begins before `next`, if there is one.
pub(super) fn older(path: &str, next: Option<&str>) -> Markup {
    html! {
        @if let Some(next) = next {
            p { a.button.plain href={ (path) (if path.contains('?') { "&" } else { "?" }) "before=" (next) } { "Older" } }
        }
    }
}

/// Where the page begins, as [`Filter::path`] says.
pub(crate) fn before(fields: &Fields) -> Option<Uuid> {
    Uuid::try_parse(fields.get("before")).ok()
}
