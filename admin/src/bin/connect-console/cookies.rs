//! The cookies of the console.

use common::settings::ConsoleUrl;
use hyper::HeaderMap;
use hyper::header::{COOKIE, HeaderValue};

/// A cookie: that of a session, or of a sign-in that waits for the identity provider.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cookie {
    /// With TLS, a browser accepts a cookie of this name only from the host itself and only over TLS (`__Host-`), so that
    /// neither another host of the domain nor an unencrypted connection can replace it.
    secure_name: &'static str,
    /// The name without TLS, which is allowed on loopback hosts only: browsers refuse a `__Host-` cookie there.
    loopback_name: &'static str,
    /// How many seconds the browser keeps it; `None`: until the browser ends.
    max_age: Option<u32>,
}

/// The token of a session, which the server ends when its limits are reached.
pub(crate) const SESSION: Cookie =
    Cookie { secure_name: "__Host-connect-console", loopback_name: "connect-console", max_age: None };
/// A [`PendingSignIn`](admin::console::PendingSignIn). Browsers send it with the redirect of the provider, because that opens a
/// page (`SameSite=Lax`).
pub(crate) const SIGN_IN: Cookie =
    Cookie { secure_name: "__Host-connect-sign-in", loopback_name: "connect-sign-in", max_age: Some(600) };

/// The longest value that is read.
const VALUE_MAX: usize = 100;

impl Cookie {
    const fn name(self, is_https: bool) -> &'static str {
        if is_https { self.secure_name } else { self.loopback_name }
    }

    /// The value in a request; `None` if the cookie is missing, repeated or longer than [`VALUE_MAX`].
    pub(crate) fn read(self, headers: &HeaderMap, console: &ConsoleUrl) -> Option<String> {
        let name = self.name(console.is_https());
        let texts = headers.get_all(COOKIE).iter().filter_map(|header| header.to_str().ok());
        let pairs = texts.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let mut values = pairs.filter(|(cookie, _)| *cookie == name).map(|(_, value)| value);
        let value = values.next()?;
        (values.next().is_none() && value.len() <= VALUE_MAX).then(|| value.to_owned())
    }

    /// The header that stores a value.
    pub(crate) fn store(self, value: &str, console: &ConsoleUrl) -> HeaderValue {
        let name = self.name(console.is_https());
        let max_age = self.max_age.map(|seconds| format!("; Max-Age={seconds}")).unwrap_or_default();
        header(&format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax{max_age}"), console)
    }

    /// The header that removes the cookie.
    pub(crate) fn remove(self, console: &ConsoleUrl) -> HeaderValue {
        let name = self.name(console.is_https());
        header(&format!("{name}=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0"), console)
    }
}

fn header(text: &str, console: &ConsoleUrl) -> HeaderValue {
    let text = if console.is_https() { format!("{text}; Secure") } else { text.to_owned() };
    HeaderValue::from_str(&text).expect("a token is base64url")
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
            SIGN_IN.store("1.a", &secure),
            "__Host-connect-sign-in=1.a; Path=/; HttpOnly; SameSite=Lax; Max-Age=600; Secure"
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
        assert_eq!(read("__Host-connect-sign-in=cn_1"), None);
        assert_eq!(read("__Host-connect-console=cn_1; __Host-connect-console=cn_2"), None);
        assert_eq!(read(&format!("__Host-connect-console={}", "a".repeat(VALUE_MAX + 1))), None);
    }
}
