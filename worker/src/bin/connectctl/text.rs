//! Texts that an operator gives, checked.

use anyhow::{bail, ensure};
use common::model::{Email, is_free_mailbox, text};

/// Longest slug and enquiry prefix, in characters.
const SLUG_MAX: usize = 100;
const ENQUIRY_PREFIX_MAX: usize = 10;

/// A name of 1 to 200 characters, trimmed.
pub(crate) fn name(given: &str) -> anyhow::Result<&str> {
    bounded("name", given, text::NAME)
}

/// The origin that a key is registered with (D24).
pub(crate) fn origin(given: &str) -> anyhow::Result<&str> {
    bounded("origin", given, text::ENVELOPE_ID)
}

fn bounded<'a>(what: &str, given: &'a str, max: usize) -> anyhow::Result<&'a str> {
    let given = given.trim();
    ensure!(!given.is_empty(), "{what} must not be empty");
    ensure!(text::fits(given, max), "{what} must have at most {max} characters");
    ensure!(!given.chars().any(char::is_control), "{what} must not have control characters");
    Ok(given)
}

/// What callers send as `X-Connect-Tenant`.
pub(crate) fn slug(given: &str) -> anyhow::Result<&str> {
    let plain = given.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
    ensure!(
        plain && (1..=SLUG_MAX).contains(&given.len()),
        "slug {given:?} must be 1 to {SLUG_MAX} lower-case letters, digits or hyphens"
    );
    Ok(given)
}

/// First part of an agency's enquiry numbers.
pub(crate) fn enquiry_prefix(given: &str) -> anyhow::Result<&str> {
    let plain = given.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    ensure!(
        plain && (1..=ENQUIRY_PREFIX_MAX).contains(&given.len()),
        "enquiry prefix {given:?} must be 1 to {ENQUIRY_PREFIX_MAX} upper-case letters or digits"
    );
    Ok(given)
}

/// A member's email, lower case.
pub(crate) fn email(given: &str) -> anyhow::Result<String> {
    match Email::parse(given) {
        Ok(email) => Ok(email.key().to_owned()),
        Err(what) => bail!("email {given:?} {what}"),
    }
}

/// The mail domain of a company, lower case: one that addresses can have, and not a free mailbox's (D13).
pub(crate) fn company_domain(given: &str) -> anyhow::Result<String> {
    let domain = given.trim().to_lowercase();
    ensure!(is_domain(&domain), "domain {given:?} must be a domain name such as example.com");
    ensure!(
        !is_free_mailbox(&domain),
        "domain {given:?} is a free mailbox provider's and can't be a company's"
    );
    Ok(domain)
}

fn is_domain(text: &str) -> bool {
    let labels = text.split('.').all(is_label) && text.contains('.');
    let numeric = text.rsplit('.').next().is_some_and(|last| last.bytes().all(|b| b.is_ascii_digit()));
    let in_addresses = Email::parse(&format!("a@{text}")).is_ok_and(|email| email.domain() == text);
    labels && !numeric && in_addresses && text.len() <= 253
}

fn is_label(label: &str) -> bool {
    let plain = label.chars().all(|c| c.is_alphanumeric() || c == '-');
    plain && (1..=63).contains(&label.len()) && !label.starts_with('-') && !label.ends_with('-')
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
        assert!(origin(&"x".repeat(100)).is_ok() && origin(&"x".repeat(101)).is_err());
    }

    #[test]
    fn members_are_known_by_their_lower_cased_email() {
        assert_eq!(email(" Ada@Example.COM ").unwrap(), "ada@example.com");
        assert!(email("ada").unwrap_err().to_string().contains("must be an email address"));
    }

    #[test]
    fn companies_have_domains_of_their_own() {
        assert_eq!(company_domain(" Example.COM ").unwrap(), "example.com");
        assert!(company_domain("a-b.co.uk").is_ok() && company_domain("b\u{fc}cher.de").is_ok());
        for wrong in [
            "",
            "com",
            "a..b",
            ".a.b",
            "a.b.",
            "-a.b",
            "a_b.c",
            "a b.c",
            "1.2.3.4",
            "x@a.b",
            "https://a.b",
            "gmail.com",
        ] {
            assert!(company_domain(wrong).is_err(), "{wrong}");
        }
        assert!(company_domain("GMAIL.com").unwrap_err().to_string().contains("free mailbox"));
    }
}
