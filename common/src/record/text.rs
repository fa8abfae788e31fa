//! Texts with length limits (D6, D21a), a type for each treatment of white space.

use super::scalar::from_string;
use crate::event::Faults;
use crate::model::text::{fits, is_blank};
use deserr::{Deserr, IntoValue, Value, ValuePointerRef};

macro_rules! text {
    ($($(#[$doc:meta])* $name:ident = $read:ident;)+) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name<const MAX: usize>(String);

        impl<const MAX: usize> $name<MAX> {
            /// The text as it is stored: trimmed where the type says so.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl<const MAX: usize> From<$name<MAX>> for String {
            fn from(text: $name<MAX>) -> Self {
                text.0
            }
        }

        impl<const MAX: usize> Deserr<Faults> for $name<MAX> {
            fn deserialize_from_value<V: IntoValue>(value: Value<V>, at: ValuePointerRef<'_>) -> Result<Self, Faults> {
                from_string(value, at, |sent| limited($read(sent), MAX).map(Self))
            }
        }
    )+};
}

text! {
    /// A name, a title, an id: trimmed, not blank, at most `MAX` characters.
    Line = trimmed;
    /// Free text: as sent, not blank, at most `MAX` characters.
    Prose = not_blank;
    /// As sent, possibly blank, at most `MAX` characters.
    Verbatim = as_sent;
}

fn trimmed(sent: &str) -> Option<&str> {
    not_blank(sent.trim())
}

fn not_blank(sent: &str) -> Option<&str> {
    (!is_blank(sent)).then_some(sent)
}

fn as_sent(sent: &str) -> Option<&str> {
    Some(sent)
}

/// `None` is a blank text.
fn limited(text: Option<&str>, max: usize) -> Result<String, String> {
    let text = text.ok_or("must not be empty")?;
    if fits(text, max) { Ok(text.to_owned()) } else { Err(format!("must have at most {max} characters")) }
}
