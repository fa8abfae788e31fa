//! Email addresses and phone numbers, each as sent and in the form that is compared (D10, D36, D37).

use super::domain::ascii_domain;
use super::text;
use email_address::{EmailAddress, Options};
use std::borrow::Cow;
use std::sync::LazyLock;
use unicode_normalization::UnicodeNormalization;
use unicode_properties::{GeneralCategory, GeneralCategoryGroup, UnicodeGeneralCategory};

/// An email address: trimmed, at most 320 characters, of email format. It may have letters, marks and joiners of any script
/// (RFC 6531).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Email {
    sent: String,
    key: String,
}

impl Email {
    /// Parses an address. The error says what is wrong with it.
    pub fn parse(sent: &str) -> Result<Self, &'static str> {
        const FORMAT: &str = "must be an email address";
        let sent = sent.trim();
        if !text::fits(sent, text::EMAIL) {
            return Err("must have at most 320 characters");
        }
        let (local, domain) = sent.rsplit_once('@').ok_or(FORMAT)?;
        let domain = ascii_domain(domain).ok_or(FORMAT)?;
        if !has_visible_letters(local) {
            return Err(FORMAT);
        }
        let key = folded(local) + "@" + &domain;
        // RFC 6531 takes any other character wherever RFC 5322 takes a letter.
        let in_ascii = || local.chars().map(|c| if c.is_ascii() { c } else { 'x' }).chain(['@']).chain(domain.chars());
        let ascii = if local.is_ascii() { Cow::Borrowed(&*key) } else { Cow::Owned(in_ascii().collect()) };
        let options = Options::default().without_display_text().without_domain_literal();
        EmailAddress::parse_with_options(&ascii, options).map_err(|_| FORMAT)?;
        Ok(Self { sent: sent.to_owned(), key })
    }

    /// An address that was parsed before it was stored, with the form that is compared.
    pub const fn stored(sent: String, key: String) -> Self {
        Self { sent, key }
    }

    /// As sent, trimmed.
    pub fn as_str(&self) -> &str {
        &self.sent
    }

    /// The form that is compared: the part before the `@` folded, the domain in its ASCII form.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// The mail domain in its ASCII form.
    pub fn domain(&self) -> &str {
        self.key.rsplit_once('@').map_or("", |(_, domain)| domain)
    }
}

/// Whether all characters beyond ASCII are letters, marks, numbers or symbols that can be seen. Joiners are part of some
/// scripts' words, so they may follow such a character, and variation selectors belong to symbols, digits and scripts without case.
fn has_visible_letters(local: &str) -> bool {
    let is_joiner = |c| matches!(c, '\u{200c}' | '\u{200d}');
    let pairs = std::iter::once('@').chain(local.chars()).zip(local.chars());
    pairs.filter(|(_, c)| !c.is_ascii()).all(|(before, c)| {
        if is_joiner(c) {
            return !before.is_ascii();
        }
        if is_variation(c) {
            let has_variants = before.general_category() == GeneralCategory::OtherLetter
                || matches!(
                    before.general_category_group(),
                    GeneralCategoryGroup::Symbol | GeneralCategoryGroup::Punctuation
                );
            return if before.is_ascii() {
                matches!(before, '0'..='9' | '#' | '*')
            } else {
                has_variants || before == '\u{2139}'
            };
        }
        !text::is_invisible(c) && c.general_category_group() != GeneralCategoryGroup::Other
    })
}

/// Whether a character says how the one before it is drawn.
const fn is_variation(c: char) -> bool {
    matches!(c, '\u{180b}'..='\u{180d}' | '\u{180f}' | '\u{fe00}'..='\u{fe0f}' | '\u{e0100}'..='\u{e01ef}')
}

/// A text as it is compared: NFC without regard to case and to how symbols are drawn. What IDNA keeps apart stays apart: ß and ss,
/// σ and ς, dotless and dotted i.
pub fn folded(local: &str) -> String {
    if local.is_ascii() {
        return local.to_ascii_lowercase();
    }
    let composed: String = text::composed(local).chars().filter(|c| !is_variation(*c)).collect();
    // The last sigma of a word is ς, and punctuation ends a word.
    let words = composed.split_inclusive(|c: char| c.is_ascii_punctuation());
    let lower: String = words.map(str::to_lowercase).collect();
    let fold = |c: char| -> Vec<char> {
        if matches!(c, 'ß' | 'ς' | 'ı') { vec![c] } else { c.to_uppercase().flat_map(char::to_lowercase).collect() }
    };
    lower.chars().flat_map(fold).nfc().collect()
}

/// A text in which people search: [`folded`], and letters that IDNA keeps apart are the same, as those who type take them.
pub fn searchable(text: &str) -> String {
    folded(text).replace('ς', "σ").replace('ß', "ss").replace('ı', "i")
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
        let digits = decimal_digits(sent);
        Ok((!digits.is_empty()).then(|| Self { sent: sent.trim().to_owned(), digits }))
    }

    /// As sent, trimmed.
    pub fn as_str(&self) -> &str {
        &self.sent
    }

    /// The digits, 0 to 9, which are the form that is compared.
    pub fn digits(&self) -> &str {
        &self.digits
    }
}

/// The decimal digits of a text, those of every script as 0 to 9 (D36).
pub fn decimal_digits(text: &str) -> String {
    text.chars().filter_map(decimal_digit).collect()
}

fn decimal_digit(c: char) -> Option<char> {
    if c.is_ascii() {
        return c.is_ascii_digit().then_some(c);
    }
    let at = ZEROS.partition_point(|zero| *zero <= c).checked_sub(1)?;
    let value = u32::from(c) - u32::from(*ZEROS.get(at)?);
    char::from_digit(value, 10)
}

/// The zeros of all scripts, sorted. Unicode encodes the ten digits of a script one after the other.
static ZEROS: LazyLock<Vec<char>> = LazyLock::new(|| {
    let is_digit = |c: &char| c.general_category() == GeneralCategory::DecimalNumber;
    ('\0'..=char::MAX).filter(is_digit).step_by(10).collect()
});

#[cfg(test)]
mod tests {
    use super::*;

    fn key(sent: &str) -> String {
        Email::parse(sent).unwrap_or_else(|what| panic!("{sent}: {what}")).key().to_owned()
    }

    #[test]
    fn emails_compare_trimmed_and_lower_cased() {
        let email = Email::parse("  Ana@Example.COM ").unwrap();
        let expected = ("Ana@Example.COM", "ana@example.com", "example.com");
        assert_eq!((email.as_str(), email.key(), email.domain()), expected);
        for wrong in ["", "ana", "ana@", "@b.c", "a b@c.d", "Ana <ana@b.c>", "ana@[127.0.0.1]", "a@b@c.d"] {
            assert!(Email::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn addresses_may_have_marks_joiners_and_letters_of_any_script() {
        for address in [
            "संपर्क@डाटामेल.भारत",
            "ผู้ใช้@ตัวอย่าง.ไทย",
            "x@உதாரணம்.இந்தியா",
            "x@نامه\u{200c}ای.com",
            "نامه\u{200c}ای@example.org",
            "x@col·lecció.cat",
            "jose\u{301}@example.org",
            "😀@example.org",
            "❤\u{fe0f}@example.org",
            "1\u{fe0f}\u{20e3}@example.org",
            "#\u{fe0f}\u{20e3}@example.org",
            "\u{2139}\u{fe0f}\u{203c}\u{fe0f}@b.c",
            "葛\u{e0100}ᠠ\u{180b}@example.org",
            "\"a b\"@example.org",
        ] {
            key(address);
        }
        for hidden in [
            "a\u{200b}@b.c", "a\u{200d}@b.c", "a\u{a0}b@c.d", "é\u{202e}@b.c", "é\u{fe0f}@b.c", "a\u{e0100}@b.c",
            "\u{3164}@b.c", "\u{e000}@b.c",
        ] {
            assert!(Email::parse(hidden).is_err(), "{hidden:?}");
        }
    }

    #[test]
    fn spellings_of_one_address_compare_equal_and_what_idna_keeps_apart_does_not() {
        let equal = "e@münchen.example=E@xn--mnchen-3ya.example jose\u{301}@example.org=JOSÉ@example.org \
            \u{212a}elvin@example.org=kelvin@example.org k@\u{212a}.example=k@k.example \
            \u{17f}am@example.org=Sam@example.org ΝΙΚΟΣ@example.org=νικος@example.org Ⅷ@example.org=ⅷ@example.org \
            \u{1e9e}@example.org=ß@example.org 葛\u{e0100}@example.org=葛@example.org";
        for (one, other) in equal.split(' ').map(|pair| pair.split_once('=').unwrap()) {
            assert_eq!(key(one), key(other));
        }
        let apart = "a@faß.de=a@fass.de faß@b.de=fass@b.de ı@example.org=i@example.org İ@example.org=i@example.org \
            é@example.org=e@example.org νικος@example.org=νικοσ@example.org";
        for (one, other) in apart.split(' ').map(|pair| pair.split_once('=').unwrap()) {
            assert_ne!(key(one), key(other));
        }
    }

    #[test]
    fn searches_take_letters_that_are_typed_alike_for_the_same() {
        for (name, typed) in [("ΑΝΔΡΟΣΑΚΗΣ", "ΑΝΔΡΟΣ"), ("Groß", "GROSS"), ("ﬁ µ ſ", "FI Μ S"), ("Işık", "isik")]
        {
            let name = searchable(name).replace('ş', "s");
            assert!(name.contains(&searchable(typed)), "{name} {typed}");
        }
    }
}
