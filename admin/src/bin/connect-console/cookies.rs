//! The cookies of the console.

use common::settings::ConsoleUrl;
use hyper::HeaderMap;
use hyper::header::{COOKIE, HeaderValue};

/// A cookie: that of a session, or of a sign-in that waits for the identity provider.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cookie<'n> {
    /// With TLS it follows `__Host-`: a browser accepts such a cookie only from the host itself and only over TLS, so that neither
    /// another host of the domain nor an unencrypted connection can replace it. Browsers refuse it without TLS, which is allowed on
    /// loopback hosts only.
    name: &'static str,
    /// Tells the sign-ins of a browser apart.
    suffix: &'n str,
    /// How many seconds the browser keeps it; `None`: until the browser ends.
    max_age: Option<u32>,
}

/// The token of a session, which the server ends when its limits are reached.
pub(crate) const SESSION: Cookie<'_> = Cookie { name: "connect-console", suffix: "", max_age: None };
const SIGN_IN: Cookie<'_> = Cookie { name: "connect-sign-in-", suffix: "", max_age: Some(600) };

/// The longest value that is read.
const VALUE_MAX: usize = 100;
/// How many sign-ins of a browser may wait for the identity provider, such as one in each of its tabs.
const SIGN_INS_MAX: usize = 8;
/// How many characters of its state name the cookie of a sign-in.
const STATE_PART: usize = 8;

/// The cookie of the sign-in with this state: a [`PendingSignIn`](admin::console::PendingSignIn). Browsers send it with the
/// redirect of the provider, because that opens a page (`SameSite=Lax`).
pub(crate) fn sign_in(state: &str) -> Cookie<'_> {
    Cookie { suffix: state.get(..STATE_PART).unwrap_or_default(), ..SIGN_IN }
}

/// The headers that remove the oldest sign-ins of a browser, so that it may have another one.
pub(crate) fn remove_surplus_sign_ins(headers: &HeaderMap, console: &ConsoleUrl) -> Vec<HeaderValue> {
    let prefix = SIGN_IN.full_name(console);
    let mut sign_ins: Vec<_> =
        pairs(headers).filter_map(|(name, value)| Some((name.strip_prefix(&prefix)?, value))).collect();
    // A value begins with its expiry.
    sign_ins.sort_by_key(|(_, value)| value.split('.').next().and_then(|expiry| expiry.parse::<i64>().ok()));
    let surplus = (sign_ins.len() + 1).saturating_sub(SIGN_INS_MAX);
    sign_ins.iter().take(surplus).map(|(suffix, _)| Cookie { suffix, ..SIGN_IN }.remove(console)).collect()
}

impl Cookie<'_> {
    fn full_name(self, console: &ConsoleUrl) -> String {
        format!("{}{}{}", if console.is_https() { "__Host-" } else { "" }, self.name, self.suffix)
    }

    /// The value in a request; `None` if the cookie is missing, repeated or longer than [`VALUE_MAX`].
    pub(crate) fn read(self, headers: &HeaderMap, console: &ConsoleUrl) -> Option<String> {
        let name = self.full_name(console);
        let mut values = pairs(headers).filter(|(cookie, _)| *cookie == name).map(|(_, value)| value);
        let value = values.next()?;
        (values.next().is_none() && value.len() <= VALUE_MAX).then(|| value.to_owned())
    }

    /// The header that stores a value.
    pub(crate) fn store(self, value: &str, console: &ConsoleUrl) -> HeaderValue {
        self.header(value, self.max_age, console)
    }

    /// The header that removes the cookie.
    pub(crate) fn remove(self, console: &ConsoleUrl) -> HeaderValue {
        self.header("", Some(0), console)
    }

    fn header(self, value: &str, max_age: Option<u32>, console: &ConsoleUrl) -> HeaderValue {
        let name = self.full_name(console);
        let max_age = max_age.map(|seconds| format!("; Max-Age={seconds}")).unwrap_or_default();
        let secure = if console.is_https() { "; Secure" } else { "" };
        HeaderValue::from_str(&format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax{max_age}{secure}"))
            .expect("names and values are visible ASCII")
    }
}

fn pairs(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    let texts = headers.get_all(COOKIE).iter().filter_map(|header| header.to_str().ok());
    texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='))
}

#[cfg(test)]
mod tests {
    use super::*;
    use common::settings::SettingValue as _;

    fn url(text: &str) -> ConsoleUrl {
        ConsoleUrl::parse_setting(text).unwrap()
    }

    #[test]
    fn a_cookie_is_host_only_http_only_and_with_tls_secure() {
        let secure = url("https://console.example.com");
        assert_eq!(
            SESSION.store("cn_1", &secure),
            "__Host-connect-console=cn_1; Path=/; HttpOnly; SameSite=Lax; Secure"
        );
        assert_eq!(
            sign_in("stateABCD").store("1.a", &secure),
            "__Host-connect-sign-in-stateABC=1.a; Path=/; HttpOnly; SameSite=Lax; Max-Age=600; Secure"
        );
        let local = url("http://127.0.0.1:8090");
        assert_eq!(SESSION.store("cn_1", &local), "connect-console=cn_1; Path=/; HttpOnly; SameSite=Lax");
        assert!(SESSION.remove(&local).to_str().unwrap().ends_with("Max-Age=0"));
    }

    #[test]
    fn only_one_cookie_of_the_right_name_counts() {
        let read = |cookie: &str| {
            let headers = HeaderMap::from_iter([(COOKIE, HeaderValue::from_str(cookie).unwrap())]);
            SESSION.read(&headers, &url("https://console.example.com"))
        };
        assert_eq!(read("a=b; __Host-connect-console=cn_1"), Some("cn_1".to_owned()));
        assert_eq!(read("connect-console=cn_1"), None);
        assert_eq!(read("__Host-connect-sign-in-=cn_1"), None);
        assert_eq!(read("__Host-connect-console=cn_1; __Host-connect-console=cn_2"), None);
        assert_eq!(read(&format!("__Host-connect-console={}", "a".repeat(VALUE_MAX + 1))), None);
    }
}
