//! What viewers see of what is loaded: emails and phone numbers masked, into whatever text somebody has written them, and neither
//! payloads nor responses of receivers.

use admin::Newest;
use admin::deliveries::{Delivery, DeliveryPage};
use admin::find::FoundStep;
use admin::keys::Key;
use admin::tenants::Member;
use admin::views::{ClientLead, Invoice, PipelineLead, TimelineEntry};
use common::model::Email;
use common::view::ClientView;
use uuid::Uuid;

/// Stands for what is masked.
pub(crate) const MASK: &str = "***";
/// Digits from which on a number is masked like a phone number.
const PHONE_DIGITS: usize = 7;

/// What may contain contact data. [`crate::context::Context::shown`] decides who sees it.
pub(crate) trait Contacts {
    /// Masks contact data, and removes what may contain it in any form.
    fn mask(&mut self);
}

impl<T: Contacts> Contacts for Vec<T> {
    fn mask(&mut self) {
        self.iter_mut().for_each(T::mask);
    }
}

impl<T: Contacts> Contacts for Option<T> {
    fn mask(&mut self) {
        self.iter_mut().for_each(T::mask);
    }
}

impl<T: Contacts> Contacts for Newest<T> {
    fn mask(&mut self) {
        self.items.mask();
    }
}

impl Contacts for String {
    fn mask(&mut self) {
        *self = without_contacts(self);
    }
}

impl Contacts for ClientView {
    fn mask(&mut self) {
        // A client without a name is named after its email or phone.
        self.name.mask();
        self.company.mask();
        self.external_id.mask();
        self.email = self.email.as_deref().map(masked_email);
        self.phone = self.phone.as_deref().map(masked_number);
    }
}

impl Contacts for ClientLead {
    fn mask(&mut self) {
        self.title.mask();
    }
}

impl Contacts for PipelineLead {
    fn mask(&mut self) {
        self.lead.title.mask();
        self.lead.external_id.mask();
        self.lead.brief.destination.mask();
        if let Some(owner) = &mut self.lead.owner {
            owner.name.mask();
        }
        if let Some(credit) = &mut self.credit {
            credit.corporate_name.mask();
        }
        self.attribution = None;
    }
}

impl Contacts for Invoice {
    fn mask(&mut self) {
        self.booking_ref.mask();
    }
}

impl Contacts for TimelineEntry {
    fn mask(&mut self) {
        self.event_id.mask();
        self.origin.mask();
        self.payload = None;
    }
}

impl Contacts for FoundStep {
    fn mask(&mut self) {
        self.event_id.mask();
    }
}

impl Contacts for Delivery {
    fn mask(&mut self) {
        self.origin.mask();
        for attempt in &mut self.attempts {
            (attempt.response, attempt.response_headers) = (None, None);
        }
    }
}

impl Contacts for DeliveryPage {
    fn mask(&mut self) {
        self.items.mask();
    }
}

impl Contacts for Key {
    fn mask(&mut self) {
        self.name.mask();
        self.origin.mask();
    }
}

impl Contacts for Member {
    fn mask(&mut self) {
        self.name.mask();
        self.email = masked_email(&self.email);
    }
}

/// Such as `a***@example.com`.
fn masked_email(email: &str) -> String {
    let (name, domain) = email.rsplit_once('@').unwrap_or_default();
    format!("{}{MASK}@{domain}", name.chars().take(1).collect::<String>())
}

/// The last two digits of a phone number.
fn masked_number(number: &str) -> String {
    let digits: Vec<char> = number.chars().filter(|c| c.is_numeric()).collect();
    format!("{MASK}{}", digits[digits.len().saturating_sub(2)..].iter().collect::<String>())
}

/// A text with the emails and phone numbers in it masked. A UUID names nobody.
fn without_contacts(text: &str) -> String {
    if Uuid::try_parse(text).is_ok() {
        return text.to_owned();
    }
    let words = text.split_whitespace().map(|word| match Email::parse(word) {
        Ok(email) => masked_email(email.as_str()),
        Err(_) if ["@", "\u{ff20}", "%40"].iter().any(|at| word.contains(at)) => MASK.to_owned(),
        Err(_) => word.to_owned(),
    });
    let text: Vec<char> = words.collect::<Vec<_>>().join(" ").chars().collect();
    let parts = text.chunk_by(|one, next| one.is_alphabetic() == next.is_alphabetic()).map(|part| {
        let part: String = part.iter().collect();
        let is_phone = part.chars().filter(|c| c.is_numeric()).count() >= PHONE_DIGITS;
        if is_phone { format!(" {} ", masked_number(&part)) } else { part }
    });
    parts.collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_partners_show_no_contacts() {
        for (text, shown) in [
            ("Enquiry from ana@example.com", "Enquiry from a***@example.com"),
            ("Ana <ana@example.com>", "Ana ***"),
            ("a@example.com,ana@example.com", "***"),
            ("ana%40example.com", "***"),
            ("0@02079460018.example.com", "***18 example.com"),
            ("Enquiry from ०७१२३४५६७८", "Enquiry from ***७८"),
            ("Call +44 20 7946 0018 soon", "Call ***18 soon"),
            ("tel:+442079460018/ana", "tel ***18 ana"),
            ("(020)7946-0018", "***18"),
            ("Ten days in Kerala, 2 adults", "Ten days in Kerala, 2 adults"),
            ("Goa 2026", "Goa 2026"),
            ("order-4711", "order-4711"),
            ("01900000-0000-7000-8000-000000000001", "01900000-0000-7000-8000-000000000001"),
        ] {
            assert_eq!(without_contacts(text), shown);
        }
    }

    #[test]
    fn contacts_are_masked() {
        assert_eq!(masked_email("ana@example.com"), "a***@example.com");
        assert_eq!(masked_number("+44 20 7946 0018"), "***18");
        assert_eq!(masked_number("7"), "***7");
    }
}
