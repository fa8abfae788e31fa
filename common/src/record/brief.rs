//! The parts of a brief whose fields depend on each other (D22): the fields are parsed first, then the whole is checked.

use super::fault::fault;
use super::list::AtMost;
use super::scalar::{Amount, Currency, Whole};
use super::sent::Sent;
use super::text::Prose;
use crate::event::Faults;
use crate::model::{Budget, Party, TravelDates, text};
use chrono::NaiveDate;
use deserr::{Deserr, IntoValue, Value, ValuePointerRef};

type Count = Whole<{ Party::COUNT_MAX }>;
type Ages = AtMost<{ Party::COUNT_MAX as usize }, Count>;

crate::record::optional_fields! {
    struct DatesFields {
        start_date: Sent<NaiveDate>,
        end_date: Sent<NaiveDate>,
    }
}

impl Deserr<Faults> for TravelDates {
    fn deserialize_from_value<V: IntoValue>(value: Value<V>, at: ValuePointerRef<'_>) -> Result<Self, Faults> {
        let fields = DatesFields::deserialize_from_value(value, at)?;
        let (start, end) = (fields.start_date.into_option(), fields.end_date.into_option());
        if start.is_none() && end.is_none() {
            return Err(fault(at, "must have startDate or endDate"));
        }
        Self::new(start, end).ok_or_else(|| fault(at, "must not end before it starts"))
    }
}

crate::record::optional_fields! {
    struct PartyFields {
        adults: Sent<Count>,
        children: Sent<Count>,
        child_ages: Sent<Ages>,
        rooms: Sent<Count>,
    }
}

impl Deserr<Faults> for Party {
    fn deserialize_from_value<V: IntoValue>(value: Value<V>, at: ValuePointerRef<'_>) -> Result<Self, Faults> {
        let fields = PartyFields::deserialize_from_value(value, at)?;
        let count = |count: Sent<Count>| count.into_option().map(Whole::get);
        let party = Self {
            adults: count(fields.adults),
            children: count(fields.children),
            child_ages: fields.child_ages.into_option().map(ages),
            rooms: count(fields.rooms),
        };
        if party == Self::default() {
            return Err(fault(at, "must have at least one of adults, children, childAges, rooms"));
        }
        Ok(party)
    }
}

fn ages(ages: Ages) -> Vec<u32> {
    ages.into_vec().into_iter().map(Whole::get).collect()
}

crate::record::optional_fields! {
    struct BudgetFields {
        amount: Sent<Amount>,
        currency: Sent<Currency>,
        notes: Sent<Prose<{ text::NOTES }>>,
    }
}

impl Deserr<Faults> for Budget {
    fn deserialize_from_value<V: IntoValue>(value: Value<V>, at: ValuePointerRef<'_>) -> Result<Self, Faults> {
        let fields = BudgetFields::deserialize_from_value(value, at)?;
        let (amount, currency) = (fields.amount.into_option(), fields.currency.into_option());
        match (amount, currency, fields.notes.into_string()) {
            (Some(Amount(amount)), Some(Currency(currency)), None) => {
                Self::from_amount(amount, &currency).ok_or_else(|| fault(at, "must be an amount and its currency"))
            }
            (None, None, Some(notes)) => Ok(Self::notes(&notes)),
            (None, None, None) => Err(fault(at, "must have amount and currency, or notes")),
            (_, _, Some(_)) => Err(fault(at, "must have either amount and currency or notes, not both")),
            (Some(_), None, None) => Err(fault(at.push_key("currency"), "is required with amount")),
            (None, Some(_), None) => Err(fault(at.push_key("amount"), "is required with currency")),
        }
    }
}
