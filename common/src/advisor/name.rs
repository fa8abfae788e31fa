//! The names of the actions.

use crate::event::Faults;
use crate::record::{from_string, one_of};
use deserr::{Deserr, IntoValue, Value, ValuePointerRef};

macro_rules! action_names {
    ($($name:ident = $text:literal;)+) => {
        /// The name of an advisor action.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ActionName {
            $(#[doc = concat!("`", $text, "`")] $name,)+
        }

        impl ActionName {
            /// Each name once, in the order of the declaration.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The name on the wire, on `connectctl`'s command line and as a metric's label.
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)+
                }
            }

            /// The event type under which the ledger records it.
            pub const fn ledger_event_type(self) -> &'static str {
                match self {
                    $(Self::$name => concat!("advisor.", $text),)+
                }
            }
        }
    };
}

action_names! {
    OpenLead = "open-lead";
    Assign = "assign";
    Stage = "stage";
    Archive = "archive";
    Travelled = "travelled";
    ProposalSend = "proposal-send";
    ProposalView = "proposal-view";
    ProposalDiscard = "proposal-discard";
    BookingConfirm = "booking-confirm";
    BookingCancel = "booking-cancel";
}

impl Deserr<Faults> for ActionName {
    fn deserialize_from_value<V: IntoValue>(value: Value<V>, at: ValuePointerRef<'_>) -> Result<Self, Faults> {
        let known = |sent: &str| Self::ALL.iter().copied().find(|name| name.as_str() == sent);
        let names = || Self::ALL.iter().map(|name| name.as_str()).collect::<Vec<_>>();
        from_string(value, at, |sent| known(sent).ok_or_else(|| one_of(&names())))
    }
}
