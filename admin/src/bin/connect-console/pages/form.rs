//! Fields of forms with their faults beside them. What was typed is kept.

use crate::context::Context;
use crate::fields::Fields;
use crate::format::time_text;
use admin::console::new_form_id;
use admin::input::Rotation;
use admin::{AdminError, ErrorKind, Result};
use common::settings::SettingValue as _;
use hyper::StatusCode;
use maud::{Markup, html};
use std::time::Duration;

/// The hidden field of a form's id.
pub(crate) const FORM_ID: &str = "form";

/// What every form that changes something contains: its id, so that it acts once (D41).
pub(crate) fn once(context: &Context<'_>) -> Markup {
    html! { input type="hidden" name=(FORM_ID) value=(new_form_id(context.token)); }
}

/// What is wrong with the fields of a form, by the name of the field, and what was typed there.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    found: Vec<(&'static str, String)>,
    typed: Option<Fields>,
}

impl Faults {
    /// The faults of a form that was not sent yet.
    pub(crate) fn none() -> Self {
        Self::default()
    }

    /// A form with these values, in which no fault was found yet.
    pub(crate) fn of_form(typed: &Fields) -> Self {
        Self { found: Vec::new(), typed: Some(typed.clone()) }
    }

    /// All that was typed; `None` if the form was not sent yet.
    pub(crate) const fn typed(&self) -> Option<&Fields> {
        self.typed.as_ref()
    }

    /// What was typed into a field.
    pub(crate) fn value(&self, field: &str) -> &str {
        self.typed.as_ref().map_or("", |typed| typed.get(field))
    }

    /// The status of a page that shows the form.
    pub(crate) const fn status(&self) -> StatusCode {
        if self.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY }
    }

    /// Parses what was typed into a field. `None` if it is invalid.
    pub(crate) fn parse<T>(&mut self, field: &'static str, parse: impl Fn(&str) -> Result<T>) -> Option<T> {
        let parsed = parse(self.value(field));
        self.check(field, parsed)
    }

    /// The value of a field, unless it is invalid.
    pub(crate) fn check<T>(&mut self, field: &'static str, parsed: Result<T>) -> Option<T> {
        parsed.map_err(|error| self.add(field, error.to_string())).ok()
    }

    pub(crate) fn add(&mut self, field: &'static str, fault: impl Into<String>) {
        self.found.push((field, fault.into()));
    }

    /// Takes an error that the person can correct as the fault of a field. Returns any other error.
    pub(crate) fn refused(&mut self, field: &'static str, error: AdminError) -> Result<()> {
        if error.kind() != ErrorKind::Refused {
            return Err(error);
        }
        self.add(field, error.to_string());
        Ok(())
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// Whether a field has the first fault: it gets the focus.
    fn is_first(&self, field: &str) -> bool {
        self.found.first().is_some_and(|(name, _)| *name == field)
    }

    fn of(&self, field: &str) -> Option<&str> {
        self.found.iter().find(|(name, _)| *name == field).map(|(_, fault)| fault.as_str())
    }
}

/// A field that a form has.
#[derive(Clone, Copy)]
pub(crate) struct Field<'a> {
    pub(crate) name: &'static str,
    pub(crate) label: &'static str,
    pub(crate) hint: &'a str,
}

/// The ids of what describes a field: its hint, and its fault.
fn described_by(name: &str, hint: &str, fault: Option<&str>) -> Option<String> {
    let ids = [(!hint.is_empty()).then(|| format!("{name}-hint")), fault.is_some().then(|| format!("{name}-fault"))];
    let ids = ids.into_iter().flatten().collect::<Vec<_>>().join(" ");
    (!ids.is_empty()).then_some(ids)
}

/// The hint and the fault of a field. In a fault, its label takes the place of the name that programs have for it.
fn descriptions(Field { name, label, hint }: Field<'_>, fault: Option<&str>) -> Markup {
    let name_of_input = name.rsplit('-').next().unwrap_or(name);
    let rest = fault
        .and_then(|fault| fault.strip_prefix(name_of_input).or(fault.strip_prefix("name")))
        .filter(|rest| rest.starts_with(' '));
    html! {
        @if !hint.is_empty() { p.hint id={ (name) "-hint" } { (hint) } }
        @if let Some(rest) = rest { p.fault id={ (name) "-fault" } { (label) (rest) } }
        @else if let Some(fault) = fault { p.fault id={ (name) "-fault" } { (fault) } }
    }
}

/// A field of one line; `kind` is its type in HTML.
pub(crate) fn input(field: Field<'_>, kind: &str, value: &str, faults: &Faults) -> Markup {
    let Field { name, label, hint } = field;
    let fault = faults.of(name);
    html! {
        div.field {
            label for=(name) { (label) }
            input id=(name) name=(name) type=(kind) value=(value) autocomplete="off" autofocus[faults.is_first(name)]
                aria-describedby=[described_by(name, hint, fault)] aria-invalid=[fault.map(|_| "true")];
            (descriptions(field, fault))
        }
    }
}

/// A field of several lines.
pub(crate) fn text_area(field: Field<'_>, value: &str, faults: &Faults) -> Markup {
    let Field { name, label, hint } = field;
    let fault = faults.of(name);
    html! {
        div.field {
            label for=(name) { (label) }
            // Browsers leave out the first line break.
            textarea id=(name) name=(name) rows="8" spellcheck="false" autocomplete="off" autofocus[faults.is_first(name)]
                aria-describedby=[described_by(name, hint, fault)] aria-invalid=[fault.map(|_| "true")] { "\n" (value) }
            (descriptions(field, fault))
        }
    }
}

/// A choice of one of several values, each with its text.
pub(crate) fn select(field: Field<'_>, options: &[(&str, &str)], chosen: &str, faults: &Faults) -> Markup {
    let Field { name, label, hint } = field;
    let fault = faults.of(name);
    html! {
        div.field {
            label for=(name) { (label) }
            select id=(name) name=(name) autofocus[faults.is_first(name)]
                aria-describedby=[described_by(name, hint, fault)] aria-invalid=[fault.map(|_| "true")] {
                @for (value, text) in options { option value=(value) selected[*value == chosen] { (text) } }
            }
            (descriptions(field, fault))
        }
    }
}

/// The form that replaces a secret. After a refusal, whose fault is until when an overlap runs, it has a check box that ends the overlap.
pub(crate) fn rotation(
    context: &Context<'_>, action: &str, (field, overlaps): (Field<'_>, &[(&str, &str)]), faults: &Faults,
) -> Markup {
    html! {
        form method="post" action=(action) {
            (once(context))
            (select(field, overlaps, faults.typed().map_or("24h", |typed| typed.get("overlap")), faults))
            @if let Some(until) = faults.of("replace") {
                p #replace-fault.fault {
                    "The old secret of the last rotation is still valid (until " (time_text(until)) "). Only one old secret is kept: rotate after that time, or end it now."
                }
                div.choice {
                    input #replace name="replace" type="checkbox" value="yes" autofocus[faults.is_first("replace")] aria-describedby="replace-fault";
                    label for="replace" { "End the old secret of the last rotation now" }
                }
            }
            button.plain { "Create a new secret" }
        }
    }
}

/// What the form of [`rotation`] asks for.
pub(crate) fn parse_rotation(faults: &mut Faults) -> Option<Rotation> {
    let overlap = faults.parse("overlap", |typed| {
        let overlap = Some(typed).filter(|typed| !typed.is_empty()).map(Duration::parse_setting).transpose();
        overlap.map_err(|what| AdminError::InvalidInput(format!("overlap {what}")))
    })?;
    Some(Rotation { overlap, replace_overlap: faults.value("replace") == "yes" })
}

/// A choice of any of several values, each with its text.
pub(crate) fn checkboxes(field: Field<'_>, options: &[(&str, &str)], chosen: &[String], faults: &Faults) -> Markup {
    let Field { name, label, hint } = field;
    let fault = faults.of(name);
    html! {
        fieldset aria-describedby=[described_by(name, hint, fault)] {
            legend { (label) }
            (descriptions(field, fault))
            @for (number, (value, text)) in options.iter().enumerate() {
                @let id = format!("{name}-{number}");
                div.choice {
                    input id=(id) name=(name) type="checkbox" value=(value) checked[chosen.iter().any(|one| one == value)]
                        autofocus[number == 0 && faults.is_first(name)];
                    label for=(id) { code { (value) } " " (text) }
                }
            }
        }
    }
}

/// Says that something must be corrected, for those who do not see the fields.
pub(crate) fn summary(faults: &Faults) -> Markup {
    html! {
        @if !faults.is_empty() {
            p.alert role="alert" { "Nothing was changed. Please correct what is marked below." }
        }
    }
}

/// Asks before a change: what will happen, and a button that does it.
pub(crate) fn confirmation(context: &Context<'_>, action: &str, button: &str, back: &str, question: &Markup) -> Markup {
    html! {
        div.alert { (question) }
        form method="post" action=(action) {
            (once(context))
            div.actions {
                button.danger { (button) }
                a.button.plain href=(back) { "Cancel" }
            }
        }
    }
}
