//! Domain names of mail: their ASCII form, which is compared, and those of public mailbox providers (D37).

use idna::AsciiDenyList;
use idna::uts46::{DnsLength, Hyphens, Uts46};
use std::collections::HashSet;
use std::sync::{LazyLock, OnceLock};

/// The maintained list, one domain on each line, sorted by bytes.
const PROVIDER_LIST: &str = include_str!("../../data/mailbox-providers.txt");

/// Brands of mailbox providers that exist under the top-level domain of many countries.
const BRANDS: [&str; 14] = [
    "aol", "gmx", "googlemail", "hotmail", "icloud", "live", "outlook", "rediffmail", "rocketmail", "yahoo", "yandex",
    "ymail", "zoho", "zohomail",
];

static ADDED: OnceLock<HashSet<String>> = OnceLock::new();

/// The ASCII form of a domain name (IDNA 2008 by UTS 46, without the transitional mappings), lower case. `None` for what is no
/// domain name.
pub fn ascii_domain(name: &str) -> Option<String> {
    if is_plain(name) {
        return Some(name.to_owned());
    }
    let ascii = Uts46::new().to_ascii(name.as_bytes(), AsciiDenyList::STD3, Hyphens::CheckFirstLast, DnsLength::Verify);
    ascii.ok().map(std::borrow::Cow::into_owned)
}

/// Whether a name is in its ASCII form without any doubt, as nearly all are: short labels of lower-case letters and digits.
fn is_plain(name: &str) -> bool {
    name.len() <= 63 && name.split('.').all(|label| !label.is_empty() && label.bytes().all(is_letter_or_digit))
}

const fn is_letter_or_digit(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9')
}

/// Adds the operator's own mailbox providers, in their ASCII form. Only the first call of a process has an effect: at its start.
pub fn add_mailbox_providers(domains: impl IntoIterator<Item = String>) {
    ADDED.get_or_init(|| domains.into_iter().collect());
}

/// Whether anyone can register a mailbox of a domain, given in its ASCII form, so that it is never a company's (D13).
pub fn is_free_mailbox(domain: &str) -> bool {
    static PROVIDERS: LazyLock<HashSet<&str>> = LazyLock::new(|| provider_lines().collect());
    PROVIDERS.contains(domain)
        || is_brand_of_a_country(domain)
        || ADDED.get().is_some_and(|added| added.contains(domain))
}

fn provider_lines() -> impl Iterator<Item = &'static str> {
    PROVIDER_LIST.lines().filter(|line| !line.starts_with('#'))
}

/// `yahoo.fr`, `yahoo.co.nz`, `yahoo.com.ar`: a brand under the top-level domain of a country, which has two letters.
fn is_brand_of_a_country(domain: &str) -> bool {
    let Some((brand, rest)) = domain.split_once('.') else { return false };
    let country = rest.strip_prefix("com.").or_else(|| rest.strip_prefix("co.")).unwrap_or(rest);
    BRANDS.contains(&brand) && country.len() == 2 && country.bytes().all(|b| b.is_ascii_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_domain_has_one_ascii_form() {
        let same = "Example.COM=example.com münchen.example=xn--mnchen-3ya.example \
            XN--mnchen-3YA.example=xn--mnchen-3ya.example mu\u{308}nchen.example=xn--mnchen-3ya.example \
            例え。jp=xn--r8jz45g.jp \u{212a}.example=k.example faß.de=xn--fa-hia.de";
        for (name, ascii) in same.split(' ').map(|pair| pair.split_once('=').unwrap()) {
            assert_eq!(ascii_domain(name).as_deref(), Some(ascii), "{name}");
        }
        for wrong in ["", "a..b", ".a", "a.", "-a.b", "a-.b", "a_b.c", "a b.c", "xn--a.b", &"a".repeat(64)] {
            assert_eq!(ascii_domain(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn mailbox_providers_are_known_whatever_their_country() {
        assert!(provider_lines().is_sorted());
        let providers = "gmail.com foxmail.com att.net yahoo.com.au yahoo.co.zw hotmail.nl live.dk voo.be orange.es seed.net.tw \
                         privaterelay.appleid.com swipnet.se wo.cn indosat.net.id plus.net netcologne.de abv.bg uol.com.br";
        for provider in providers.split_whitespace() {
            assert!(is_free_mailbox(provider), "{provider}");
        }
        for company in ["example.com", "yahoo.example", "outlook.travel", "live.corp.de", "gmail.com.evil.example"] {
            assert!(!is_free_mailbox(company), "{company}");
        }
    }
}
