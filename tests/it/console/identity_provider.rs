//! A real OpenID Connect provider: `oidc-provider-mock`, whose users sign in by naming themselves.

use super::{ConsoleWorld, encoded, form};
use crate::openapi::python_tool;
use serde_json::Value;
use std::process::Stdio;
use tests::{HttpClient, HttpRequest, HttpResponse, MAX_WAIT, World, WorldBuilder};
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Child;
use tokio::time::timeout;

/// The rights of groups in the tests.
pub(super) const GROUPS: &str =
    "connect-operators=operator,acme-admins=admin:acme,acme-staff=viewer:acme,lost=viewer:nobody";

/// A running provider; killed with its value.
pub(super) struct IdentityProvider {
    child: Child,
    http: HttpClient,
    issuer: String,
}

impl IdentityProvider {
    /// Starts a provider whose tokens are valid for an hour.
    pub(super) async fn start() -> Self {
        Self::with(&[]).await
    }

    /// Starts a provider with more options.
    pub(super) async fn with(options: &[&str]) -> Self {
        let mut command = python_tool("oidc-provider-mock").await;
        command.args(["--port", "0"]).args(options).stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = command.stderr(Stdio::piped()).kill_on_drop(true).spawn().expect("the provider starts");
        let mut lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let listening = async {
            loop {
                let line = lines.next_line().await.expect("a line").expect("the provider listens");
                if let Some((_, rest)) = line.split_once("running on http://") {
                    return rest.split_whitespace().next().expect("an address").to_owned();
                }
            }
        };
        let address = timeout(MAX_WAIT, listening).await.expect("the provider listens in time");
        // Otherwise the pipe fills.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        let http = HttpClient::for_other_server(address.parse().expect("an address"));
        Self { child, http, issuer: format!("http://{address}") }
    }

    pub(super) fn issuer(&self) -> &str {
        &self.issuer
    }

    /// Ends the provider as a crash does.
    pub(super) async fn stop(&mut self) {
        self.child.kill().await.expect("the provider is killed");
    }

    /// A console whose people sign in at this provider.
    pub(super) async fn console(&self) -> ConsoleWorld {
        ConsoleWorld::of(self.configure(World::with().ingests(0).workers(0))).await
    }

    pub(super) fn configure(&self, builder: WorldBuilder) -> WorldBuilder {
        builder
            .set("CONNECT_OIDC_ISSUER", &self.issuer)
            .set("CONNECT_OIDC_CLIENT_ID", "connect")
            .set("CONNECT_OIDC_CLIENT_SECRET", "client-secret-of-the-test")
            .set("CONNECT_OIDC_GROUPS", GROUPS)
    }

    pub(super) async fn set_user(&self, id: &str, claims: &Value) {
        let request = HttpRequest::new("PUT", &format!("/users/{}", encoded(id)), claims.to_string());
        self.http.send(&request.with("content-type", "application/json")).await.assert_status(204);
    }

    /// The user signs in at the page to which the console has sent the browser. Returns the path that the provider redirects to.
    pub(super) async fn authorize(&self, url: &str, user: &str) -> String {
        let response = self.answer(url, &[("sub", user)]).await.assert_status(302);
        let location = response.header("location");
        location.splitn(4, '/').nth(3).map(|path| format!("/{path}")).expect("a path")
    }

    /// The user declines.
    pub(super) async fn decline(&self, url: &str) -> String {
        let response = self.answer(url, &[("action", "deny")]).await;
        let location = response.header("location");
        location.splitn(4, '/').nth(3).map(|path| format!("/{path}")).expect("a path")
    }

    async fn answer(&self, url: &str, fields: &[(&str, &str)]) -> HttpResponse {
        let path = url.strip_prefix(&self.issuer).expect("a page of the provider");
        self.http.send(&form(path, fields)).await
    }
}
