//! The faults of a body: all of them, each with its place, for the message of a 400 (D4).

use std::fmt;

/// How many faults a message lists; the others are counted.
const FAULTS_SHOWN: usize = 10;

/// One fault of a body, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Where, such as `events[3].actor.email`; empty for the body as a whole.
    pub place: String,
    /// What, such as `must be a string`.
    pub what: String,
}

/// All faults found, in the order of the body.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Faults(pub Vec<Fault>);

impl Faults {
    /// Faults with one entry, for a check that finds at most one.
    pub fn one(place: impl Into<String>, what: impl Into<String>) -> Self {
        let mut faults = Self::default();
        faults.push(place, what);
        faults
    }

    /// Adds a fault at `place`, a path such as `events[0].email`.
    pub fn push(&mut self, place: impl Into<String>, what: impl Into<String>) {
        self.0.push(Fault { place: place.into(), what: what.into() });
    }

    /// Whether there is no fault.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, Fault { place, what }) in self.0.iter().take(FAULTS_SHOWN).enumerate() {
            let separator = if i == 0 { "" } else { "; " };
            let place = if place.is_empty() { "body" } else { place };
            write!(f, "{separator}{place}: {what}")?;
        }
        match self.0.len().saturating_sub(FAULTS_SHOWN) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}
