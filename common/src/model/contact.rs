//! Email addresses and phone numbers, each as sent and in the form that is compared (D10).

use super::text;
use email_address::{EmailAddress, Options};

/// An email address: trimmed, at most 320 characters, of email format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Email {
    sent: String,
    key: String,
}

impl Email {
    /// Parses an address. The error says what is wrong with it.
    pub fn parse(sent: &str) -> Result<Self, &'static str> {
        let sent = sent.trim();
        if !text::fits(sent, text::EMAIL) {
            return Err("must have at most 320 characters");
        }
        let options = Options::default().without_display_text().without_domain_literal();
        match EmailAddress::parse_with_options(sent, options) {
            Ok(_) => Ok(Self { sent: sent.to_owned(), key: sent.to_lowercase() }),
            Err(_) => Err("must be an email address"),
        }
    }

    /// As sent, trimmed.
    pub fn as_str(&self) -> &str {
        &self.sent
    }

    /// The form that is compared: lower case.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The mail domain, lower case.
    pub fn domain(&self) -> &str {
        self.key.rsplit_once('@').map_or("", |(_, domain)| domain)
    }
}

/// A phone: at most 40 characters with at least one digit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phone {
    sent: String,
    digits: String,
}

impl Phone {
    /// `Ok(None)` for a text without a digit: it counts as absent (D6).
    pub fn parse(sent: &str) -> Result<Option<Self>, &'static str> {
        if !text::fits(sent, text::PHONE) {
            return Err("must have at most 40 characters");
        }
        let digits: String = sent.chars().filter(char::is_ascii_digit).collect();
        Ok((!digits.is_empty()).then(|| Self { sent: sent.trim().to_owned(), digits }))
    }

    /// As sent, trimmed.
    pub fn as_str(&self) -> &str {
        &self.sent
    }

    /// The digits, which are the form that is compared.
    pub fn digits(&self) -> &str {
        &self.digits
    }
}

/// Domains of mailbox providers that anyone can register with, which are never a company's domain (D13).
const FREE_MAILBOXES: &[&str] = &[
    "126.com",
    "163.com",
    "aol.com",
    "bluewin.ch",
    "bol.com.br",
    "btinternet.com",
    "comcast.net",
    "duck.com",
    "fastmail.com",
    "free.fr",
    "freenet.de",
    "gmail.com",
    "gmx.at",
    "gmx.ch",
    "gmx.com",
    "gmx.de",
    "gmx.net",
    "googlemail.com",
    "hey.com",
    "hotmail.co.uk",
    "hotmail.com",
    "hotmail.de",
    "hotmail.es",
    "hotmail.fr",
    "hotmail.it",
    "hushmail.com",
    "icloud.com",
    "inbox.lv",
    "laposte.net",
    "libero.it",
    "live.co.uk",
    "live.com",
    "live.fr",
    "live.nl",
    "mac.com",
    "mail.com",
    "mail.ru",
    "mailbox.org",
    "me.com",
    "msn.com",
    "naver.com",
    "orange.fr",
    "outlook.com",
    "outlook.de",
    "outlook.es",
    "outlook.fr",
    "outlook.in",
    "pm.me",
    "posteo.de",
    "proton.me",
    "protonmail.com",
    "qq.com",
    "rediffmail.com",
    "rocketmail.com",
    "seznam.cz",
    "sfr.fr",
    "t-online.de",
    "tutanota.com",
    "uol.com.br",
    "verizon.net",
    "virgilio.it",
    "wanadoo.fr",
    "web.de",
    "wp.pl",
    "yahoo.ca",
    "yahoo.co.in",
    "yahoo.co.jp",
    "yahoo.co.uk",
    "yahoo.com",
    "yahoo.com.br",
    "yahoo.de",
    "yahoo.es",
    "yahoo.fr",
    "yahoo.in",
    "yahoo.it",
    "yandex.com",
    "yandex.ru",
    "ymail.com",
    "zoho.com",
];

/// Whether a lower-case domain is a free mailbox provider's.
pub fn is_free_mailbox(domain: &str) -> bool {
    FREE_MAILBOXES.binary_search(&domain).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn emails_compare_trimmed_and_lower_cased() {
        let email = Email::parse("  Ana@Example.COM ").unwrap();
        assert_eq!(
            (email.as_str(), email.key(), email.domain()),
            ("Ana@Example.COM", "ana@example.com", "example.com")
        );
        for wrong in ["", "ana", "ana@", "@b.c", "a b@c.d", "Ana <ana@b.c>", "ana@[127.0.0.1]"] {
            assert!(Email::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_phone_without_a_digit_counts_as_absent() {
        assert_eq!(Phone::parse("n/a").unwrap(), None);
        assert_eq!(Phone::parse("+49 (30) 12-3").unwrap().unwrap().digits(), "4930123");
        assert!(Phone::parse(&"1".repeat(41)).is_err());
    }

    #[test]
    fn the_list_of_free_mailboxes_is_sorted() {
        assert!(FREE_MAILBOXES.is_sorted());
        assert!(is_free_mailbox("gmail.com") && !is_free_mailbox("example.com"));
    }
}
