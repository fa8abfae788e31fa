//! The settings area in the browser: real requests to `connect-console`, as browsers send them.

mod audit;
pub(crate) mod browser;
mod deliveries;
mod find;
mod forms;
mod hostile;
pub(crate) mod identity_provider;
mod keys;
mod mails;
mod openid_connect;
mod overview;
mod provider_answers;
mod proxy;
mod queues;
mod repeated_forms;
mod roles;
mod shares;
mod sign_in;
mod webhooks;

use admin::console::new_form_id;
use std::fmt::Write as _;
use tests::{
    Connectctl, HttpClient, HttpRequest, HttpResponse, MAX_WAIT, Program, World, WorldBuilder, eventually, slug, text,
    with_names,
};

pub(super) struct ConsoleWorld {
    /// None in the shared world.
    pub(super) console: Option<Program>,
    pub(super) world: World,
}

/// Somebody who uses the console, with the cookie of their session.
pub(super) struct Visitor<'c> {
    console: &'c HttpClient,
    pub(super) cookie: Option<String>,
}

impl ConsoleWorld {
    pub(super) async fn shared() -> Self {
        Self { console: None, world: World::shared().await }
    }

    /// A world without other programs than the console.
    pub(super) async fn start() -> Self {
        Self::of(World::with().ingests(0).workers(0)).await
    }

    pub(super) async fn of(builder: WorldBuilder) -> Self {
        let world = builder.start().await;
        let console = Program::console(world.settings()).await;
        Self { console: Some(console), world }
    }

    pub(super) fn program(&self) -> &Program {
        self.console.as_ref().expect("a world of its own")
    }

    pub(super) fn http(&self) -> &HttpClient {
        self.console.as_ref().map_or_else(|| self.world.console(), Program::http)
    }

    /// The path of a new link for these options of `connectctl console login`.
    pub(super) async fn link(&self, options: &[&str]) -> String {
        link(&self.world.connectctl, options).await
    }

    /// Somebody who is not signed in.
    pub(super) fn visitor(&self) -> Visitor<'_> {
        Visitor { console: self.http(), cookie: None }
    }

    /// Somebody who has signed in with a link of these options.
    pub(super) async fn signed_in(&self, options: &[&str]) -> Visitor<'_> {
        Visitor::signed_in(self.http(), &self.world.connectctl, options).await
    }

    pub(super) async fn operator(&self) -> Visitor<'_> {
        self.signed_in(&["--role", "operator"]).await
    }

    pub(super) async fn admin(&self) -> Visitor<'_> {
        self.signed_in(&["--role", "admin", "--tenant", "acme"]).await
    }

    pub(super) async fn viewer(&self) -> Visitor<'_> {
        self.signed_in(&["--role", "viewer", "--tenant", "acme"]).await
    }
}

impl<'c> Visitor<'c> {
    /// Somebody who has signed in to this console with a link of these options.
    pub(super) async fn signed_in(console: &'c HttpClient, connectctl: &Connectctl, options: &[&str]) -> Self {
        let mut visitor = Self { console, cookie: None };
        let response = visitor.sign_in(&link(connectctl, options).await).await;
        assert_eq!((response.status, response.header("location")), (303, "/"), "{}", body(&response));
        visitor
    }

    /// Sends a request, a form with a new id unless it has one. In the shared world a tenant's name stands for its slug in the path and in the response.
    pub(super) async fn send(&self, mut request: HttpRequest) -> HttpResponse {
        let (path, query) = request.target.split_at(request.target.find('?').unwrap_or(request.target.len()));
        let path: Vec<String> = path.split('/').map(slug).collect();
        request.target = format!("{}{query}", path.join("/"));
        let request = match &self.cookie {
            Some(cookie) => with_id(request, cookie).with("cookie", cookie),
            None => request,
        };
        let mut response = self.console.send(&request).await;
        if response.header("content-type").starts_with("text/") {
            response.body = with_names(body(&response)).into();
        }
        for value in response.headers.values_mut() {
            if let Ok(text) = value.to_str() {
                *value = with_names(text.to_owned()).try_into().expect("a header");
            }
        }
        response
    }

    pub(super) async fn get(&self, path: &str) -> HttpResponse {
        self.send(HttpRequest::new("GET", path, "")).await
    }

    /// The text of a page that must be shown.
    pub(super) async fn page(&self, path: &str) -> String {
        let response = self.get(path).await;
        assert_eq!(response.status, 200, "{path}: {}", body(&response));
        body(&response)
    }

    /// Waits until a page has all of these texts, and returns it.
    pub(super) async fn until_shown(&self, path: &str, texts: &[&str]) -> String {
        eventually("the page shows it", MAX_WAIT, async || {
            let page = self.page(path).await;
            match texts.iter().find(|text| !page.contains(**text)) {
                None => Ok(page),
                Some(missing) => Err(format!("{missing:?} is missing: {page}")),
            }
        })
        .await
    }

    /// Sends a form as a page of the console does.
    pub(super) async fn post(&self, path: &str, fields: &[(&str, &str)]) -> HttpResponse {
        self.send(form(path, fields).with("sec-fetch-site", "same-origin")).await
    }

    /// Sends a form that must lead to another page.
    pub(super) async fn change(&self, path: &str, fields: &[(&str, &str)]) -> String {
        let response = self.post(path, fields).await;
        assert_eq!(response.status, 303, "{path}: {}", body(&response));
        response.header("location").to_owned()
    }

    /// Opens a link and presses its button. Keeps the cookie.
    pub(super) async fn sign_in(&mut self, link: &str) -> HttpResponse {
        let token = link.rsplit('/').next().expect("a token").to_owned();
        let response = self.post("/sign-in", &[("token", &token)]).await;
        self.keep_cookies(&response);
        response
    }

    /// Stores and removes cookies as a browser does.
    pub(super) fn keep_cookies(&mut self, response: &HttpResponse) {
        let kept = self.cookie.take().unwrap_or_default();
        let mut kept: Vec<&str> = kept.split("; ").filter(|pair| !pair.is_empty()).collect();
        let name = |pair: &str| pair.split('=').next().map(str::to_owned);
        for cookie in response.headers.get_all("set-cookie") {
            let cookie = cookie.to_str().expect("a cookie");
            let pair = cookie.split(';').next().expect("a cookie");
            kept.retain(|other| name(other) != name(pair));
            if !cookie.contains("Max-Age=0") {
                kept.push(pair);
            }
        }
        self.cookie = Some(kept.join("; ")).filter(|cookies| !cookies.is_empty());
    }
}

/// The path of a new link for these options of `connectctl console login`.
async fn link(connectctl: &Connectctl, options: &[&str]) -> String {
    let created = connectctl.json(&[&["console", "login"], options].concat()).await;
    let url = text(&created["url"]);
    url.splitn(4, '/').nth(3).map(|path| format!("/{path}")).expect("a path")
}

/// A form, without the headers in which browsers say whose page sent it.
pub(super) fn form(path: &str, fields: &[(&str, &str)]) -> HttpRequest {
    let pairs: Vec<String> =
        fields.iter().map(|(name, value)| format!("{}={}", encoded(name), encoded(&slug(value)))).collect();
    HttpRequest::new("POST", path, pairs.join("&")).with("content-type", "application/x-www-form-urlencoded")
}

/// A form with an id of the session, as its pages have it.
fn with_id(mut request: HttpRequest, cookie: &str) -> HttpRequest {
    let is_form = |(_, value): &(String, Vec<u8>)| value == b"application/x-www-form-urlencoded";
    if request.headers.iter().any(is_form) && !String::from_utf8_lossy(&request.body).contains("form=") {
        let token = cookie.split_once('=').map_or("", |(_, token)| token);
        request.body = [&request.body, format!("&form={}", new_form_id(token)).as_bytes()].concat().into();
    }
    request
}

/// Percent-encodes everything but letters and digits.
pub(super) fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("a string can be written to");
        }
        encoded
    })
}

pub(super) fn body(response: &HttpResponse) -> String {
    String::from_utf8_lossy(&response.body).into_owned()
}

/// The code of a sample that a page shows below a heading.
pub(super) fn sample(page: &str, heading: &str) -> String {
    let shown = between(page, &format!("<h3>{heading}</h3>"), "</pre>");
    let code = between(shown, "<code data-copy>", "</code>").replace("&quot;", "\"");
    code.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

pub(super) fn between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("no {before:?} in {text}"));
    rest.split_once(after).unwrap_or_else(|| panic!("no {after:?} in {rest}")).0
}
