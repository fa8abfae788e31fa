//! Inputs that cannot hold an invalid value.

use crate::{AdminError, Result};
use common::event::OutboundType;
use common::model::{Email, Scopes, ascii_domain, is_free_mailbox, text};
use std::str::FromStr;
use std::time::Duration;

/// Longest slug and enquiry prefix, in characters.
const SLUG_MAX: usize = 100;
const ENQUIRY_PREFIX_MAX: usize = 10;

/// The origin of advisors' actions, which no key may have (D29).
const ORIGIN_OF_CRM: &str = "crm";

macro_rules! text_inputs {
    ($($(#[$doc:meta])* $name:ident = $parse:ident),+ $(,)?) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct $name(String);

        impl $name {
            /// Validates a text. The error says what is expected.
            pub fn parse(given: &str) -> Result<Self> {
                $parse(given).map(Self).map_err(AdminError::InvalidInput)
            }

            /// The text as given, which is valid.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }
    )+};
}

text_inputs! {
    /// A name of 1 to 200 characters, trimmed.
    Name = name,
    /// The origin of a key: the emitting system that uses it (D24).
    Origin = origin,
    /// The slug of a new tenant, which callers send as `X-Connect-Tenant`.
    TenantSlug = slug,
    /// First part of a tenant's enquiry numbers.
    EnquiryPrefix = enquiry_prefix,
    /// A member's email, lower case.
    MemberEmail = email,
    /// The mail domain of a company, in lower case. Domains of free mailbox providers are refused (D13).
    CompanyDomain = company_domain,
}

/// How a secret is replaced (D33).
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    /// How long the old secret is of use beside the new one; `None` for not at all.
    pub overlap: Option<Duration>,
    /// Whether the overlap of an earlier rotation may end now. Only one old secret is kept.
    pub replace_overlap: bool,
}

/// The scopes of a key: at least one, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyScopes(Scopes);

impl KeyScopes {
    /// Parses the names of scopes; blank ones are ignored.
    pub fn parse(given: &[String]) -> Result<Self> {
        let names: Vec<&str> = given.iter().map(|name| name.trim()).filter(|name| !name.is_empty()).collect();
        if names.is_empty() {
            return Err(AdminError::InvalidInput("a key needs at least one scope".to_owned()));
        }
        Scopes::parse(&names).map(Self).map_err(AdminError::InvalidInput)
    }

    /// The names on the wire.
    pub fn names(&self) -> Vec<String> {
        self.0.names()
    }
}

/// The event types of a subscription, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventTypes(Vec<OutboundType>);

impl EventTypes {
    /// Parses the names of outbound events.
    pub fn parse(given: &[String]) -> Result<Self> {
        let mut types = Vec::new();
        for name in given.iter().map(|name| name.trim()) {
            let Some(known) = OutboundType::parse(name) else {
                let known = OutboundType::ALL.iter().map(|known| known.as_str()).collect::<Vec<_>>().join(", ");
                return Err(AdminError::InvalidInput(format!("unknown event type {name:?}; the types are {known}")));
            };
            if !types.contains(&known) {
                types.push(known);
            }
        }
        Ok(Self(types))
    }

    /// The names on the wire.
    pub fn names(&self) -> Vec<&'static str> {
        self.0.iter().map(|known| known.as_str()).collect()
    }
}

/// Records writes allowed in a month; `None` for no limit. As text a number or `none`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MonthlyQuota(Option<i64>);

impl MonthlyQuota {
    /// The number, from 0; `None` for no limit.
    pub const fn limit(self) -> Option<i64> {
        self.0
    }
}

impl FromStr for MonthlyQuota {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "none" {
            return Ok(Self(None));
        }
        let number = text.parse().ok().filter(|number| *number >= 0);
        number
            .map(|number| Self(Some(number)))
            .ok_or("must be a whole number from 0 to 9223372036854775807, or none for no limit")
    }
}

/// The address that gets mails about what needs the agency's attention; `None` for no mails. As text an email or `none`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttentionEmail(Option<MemberEmail>);

impl AttentionEmail {
    /// Lower case.
    pub fn address(&self) -> Option<&str> {
        self.0.as_ref().map(MemberEmail::as_str)
    }
}

impl FromStr for AttentionEmail {
    type Err = AdminError;

    fn from_str(text: &str) -> Result<Self> {
        if text == "none" { Ok(Self(None)) } else { MemberEmail::parse(text).map(|email| Self(Some(email))) }
    }
}

impl Name {
    /// The name of a person as a provider or proxy gives it. Those that look the same are the same: it is in NFC, and refused if it
    /// has other characters than visible ones and blanks.
    pub fn of_person(given: &str) -> Result<Self> {
        let name = Self(text::composed(given.trim()));
        if name.0.chars().any(text::is_invisible) {
            return Err(AdminError::InvalidInput("name must have visible characters only".to_owned()));
        }
        Self::parse(&name.0)
    }
}

fn name(given: &str) -> Result<String, String> {
    bounded("name", given, text::NAME)
}

fn origin(given: &str) -> Result<String, String> {
    let origin = bounded("origin", given, text::ENVELOPE_ID)?;
    if origin.eq_ignore_ascii_case(ORIGIN_OF_CRM) {
        return Err(format!("origin {origin:?} is the CRM's own (D29); give the name of the system that uses the key"));
    }
    Ok(origin)
}

fn bounded(what: &str, given: &str, max: usize) -> Result<String, String> {
    let given = given.trim();
    if text::is_blank(given) {
        return Err(format!("{what} must not be empty"));
    }
    if !text::fits(given, max) {
        return Err(format!("{what} must have at most {max} characters"));
    }
    if given.chars().any(char::is_control) {
        return Err(format!("{what} must not have control characters"));
    }
    Ok(given.to_owned())
}

fn slug(given: &str) -> Result<String, String> {
    let plain = given.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    if !plain || !(1..=SLUG_MAX).contains(&given.len()) {
        return Err(format!("slug {given:?} must be 1 to {SLUG_MAX} lower-case letters, digits or hyphens"));
    }
    Ok(given.to_owned())
}

fn enquiry_prefix(given: &str) -> Result<String, String> {
    let plain = given.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    if !plain || !(1..=ENQUIRY_PREFIX_MAX).contains(&given.len()) {
        return Err(format!("enquiry prefix {given:?} must be 1 to {ENQUIRY_PREFIX_MAX} upper-case letters or digits"));
    }
    Ok(given.to_owned())
}

fn email(given: &str) -> Result<String, String> {
    let email = Email::parse(given).map_err(|what| format!("email {given:?} {what}"))?;
    Ok(email.key().to_owned())
}

fn company_domain(given: &str) -> Result<String, String> {
    let domain = ascii_domain(given.trim()).filter(|domain| is_public_name(domain));
    let domain = domain.ok_or_else(|| format!("domain {given:?} must be a domain name such as example.com"))?;
    if is_free_mailbox(&domain) {
        return Err(format!("domain {given:?} belongs to a free mailbox provider; give a domain of the company's own"));
    }
    Ok(domain)
}

/// Whether a name in ASCII form has a top-level domain, which no address in digits has.
fn is_public_name(domain: &str) -> bool {
    let last = domain.rsplit_once('.').map(|(_, last)| last);
    last.is_some_and(|last| !last.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slugs_are_lower_case_and_prefixes_upper_case() {
        assert!(slug("acme-2").is_ok() && slug(&"a".repeat(100)).is_ok());
        for wrong in ["", "Acme", "a b", "a_b", "ä", " a"] {
            assert!(slug(wrong).is_err(), "{wrong}");
        }
        assert!(slug(&"a".repeat(101)).is_err());
        assert!(enquiry_prefix("ENQ2").is_ok());
        for wrong in ["", "enq", "E-Q", "ABCDEFGHIJK"] {
            assert!(enquiry_prefix(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn names_are_trimmed_and_bounded() {
        assert_eq!(name("  Ada ").unwrap(), "Ada");
        assert!(name(" ").is_err() && name(&"x".repeat(201)).is_err() && name("a\nb").is_err());
        assert!(origin("crm").is_err() && origin(" CRM ").is_err() && origin("crm-sync").is_ok());
        assert!(origin(&"x".repeat(100)).is_ok() && origin(&"x".repeat(101)).is_err());
    }

    #[test]
    fn member_emails_are_lower_cased() {
        assert_eq!(email(" Ada@Example.COM ").unwrap(), "ada@example.com");
        assert!(email("ada").unwrap_err().contains("must be an email address"));
    }

    #[test]
    fn company_domains_must_be_valid_and_not_free_mailboxes() {
        assert_eq!(company_domain(" Example.COM ").unwrap(), "example.com");
        assert!(company_domain("a-b.co.uk").is_ok() && company_domain("b\u{fc}cher.de").is_ok());
        for wrong in [
            "", "com", "a..b", ".a.b", "a.b.", "-a.b", "a_b.c", "a b.c", "1.2.3.4", "x@a.b", "https://a.b", "gmail.com",
        ] {
            assert!(company_domain(wrong).is_err(), "{wrong}");
        }
        assert!(company_domain("GMAIL.com").unwrap_err().contains("free mailbox"));
    }

    fn list(text: &str) -> Vec<String> {
        text.split(',').map(str::to_owned).collect()
    }

    #[test]
    fn unknown_scopes_are_refused() {
        let given = |text: &str| KeyScopes::parse(&list(text));
        let expected = ["events:ingest", "leads:read"];
        assert_eq!(given("events:ingest, leads:read,events:ingest").unwrap().names(), expected);
        let unknown = given("events:ingest,root").unwrap_err().to_string();
        assert!(unknown.starts_with("unknown scope \"root\"; the scopes are events:ingest, "), "{unknown}");
        assert!(given("").is_err() && given(",").is_err());
    }

    #[test]
    fn only_outbound_event_types_are_accepted() {
        let given = |text: &str| EventTypes::parse(&list(text));
        let expected = ["lead.assigned", "proposal.sent"];
        assert_eq!(given("lead.assigned, proposal.sent,lead.assigned").unwrap().names(), expected);
        for wrong in ["", "lead.assigned,", "contact.identified", "message.posted"] {
            assert!(given(wrong).unwrap_err().to_string().starts_with("unknown event type"), "{wrong}");
        }
    }

    #[test]
    fn a_quota_is_a_number_or_none() {
        assert_eq!("none".parse(), Ok(MonthlyQuota(None)));
        assert_eq!("0".parse(), Ok(MonthlyQuota(Some(0))));
        for wrong in ["", "-1", "1.5", "None", "99999999999999999999"] {
            assert!(wrong.parse::<MonthlyQuota>().is_err(), "{wrong}");
        }
    }
}
