//! Signing in at a provider whose documents and tokens are unusual, wrong, or forged (D43).

use super::openid_connect::begin;
use super::{ConsoleWorld, Visitor, between, body};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use common::version::USER_AGENT;
use rcgen::{KeyPair, PKCS_ED25519, SigningKey as _};
use serde_json::{Value, json};
use tests::{Authority, Behavior, HttpResponse, Program, Receiver, World, now, slug};

const DISCOVERY: &str = "/.well-known/openid-configuration";
const TOKEN: &str = "/token";

/// A provider that answers as a test tells it, and signs whatever it is told to.
struct Provider {
    server: Receiver,
    key: KeyPair,
}

/// `base` with the fields of `other`.
fn with(mut base: Value, other: &Value) -> Value {
    let fields = other.as_object().cloned().unwrap_or_default();
    base.as_object_mut().expect("an object").extend(fields);
    base
}

impl Provider {
    fn start() -> Self {
        Self::on(Receiver::http())
    }

    fn on(server: Receiver) -> Self {
        let key = KeyPair::generate_for(&PKCS_ED25519).expect("a key");
        let provider = Self { server, key };
        provider.set_discovery(&json!({}));
        let key = json!({"kty": "OKP", "crv": "Ed25519", "kid": "k1", "x": URL_SAFE_NO_PAD.encode(provider.key.public_key_raw()),
            "use": "sig", "alg": "EdDSA", "x5c": "none", "key_ops": 1});
        let unknown = json!({"kty": "LMS", "kid": "k1", "use": ["sig"]});
        provider.answer("/jwks", 200, &json!({"keys": [1, {}, unknown, {"kty": "oct", "k": "AAAA"}, key]}));
        provider
    }

    fn answer(&self, path: &str, status: u16, body: &Value) {
        let behavior = Behavior::status(status).with_header("content-type", "application/json");
        self.server.respond(path, behavior.with_body(body.to_string()));
    }

    fn set_discovery(&self, other: &Value) {
        let document = json!({
            "issuer": self.server.url(""),
            "authorization_endpoint": self.server.url("/authorize"),
            "token_endpoint": self.server.url(TOKEN),
            "jwks_uri": self.server.url("/jwks"),
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["EdDSA"],
        });
        self.answer(DISCOVERY, 200, &with(document, other));
    }

    /// A console of the shared world whose people sign in at this provider.
    async fn console(&self, more: &[(&str, &str)]) -> ConsoleWorld {
        let mut world = World::shared().await;
        let groups = format!("admins=admin:{}", slug("acme"));
        let (issuer, audiences) = (self.server.url(""), "project-1, project-2");
        let settings = [("ISSUER", issuer.as_str()), ("CLIENT_ID", "connect"), ("CLIENT_SECRET", "s")];
        for (name, value) in settings.iter().chain(&[("GROUPS", groups.as_str()), ("AUDIENCES", audiences)]).chain(more)
        {
            world.set(&format!("CONNECT_OIDC_{name}"), value);
        }
        let console = Program::console(world.settings()).await;
        ConsoleWorld { console: Some(console), world }
    }

    /// Begins and completes a sign-in. Its token answer, ID token and header of that have the `changed` fields `answer`, `claims`
    /// and `header`.
    async fn sign_in(&self, visitor: &mut Visitor<'_>, changed: &Value) -> HttpResponse {
        let url = format!("{}&", begin(visitor).await);
        let header = with(json!({"alg": "EdDSA", "kid": "k1"}), &changed["header"]);
        let claims = json!({
            "iss": self.server.url(""), "aud": "connect", "sub": "id-1", "nonce": between(&url, "&nonce=", "&"),
            "iat": now(), "exp": now() + 300, "groups": ["admins"],
        });
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", part(&header), part(&with(claims, &changed["claims"])));
        let signature = self.key.sign(message.as_bytes()).expect("a signature");
        let token = format!("{message}.{}", URL_SAFE_NO_PAD.encode(signature));
        let answer = json!({"access_token": "a", "token_type": "Bearer", "id_token": token});
        self.answer(TOKEN, 200, &with(answer, &changed["answer"]));
        complete(visitor, &url).await
    }
}

/// The provider sends the browser back.
async fn complete(visitor: &mut Visitor<'_>, url: &str) -> HttpResponse {
    let state = between(url, "&state=", "&");
    let response = visitor.get(&format!("/sign-in/oidc/callback?code=a&state={state}")).await;
    visitor.keep_cookies(&response);
    response
}

/// The page of an answer that cannot be used, which is no outage.
fn assert_unusable(response: &HttpResponse, field: &str) {
    let page = body(response);
    assert_eq!((response.status, response.header("retry-after")), (403, ""), "{field}: {page}");
    assert!(page.contains(&format!("the provider's answer can't be used: {field}")), "{field}: {page}");
}

#[tokio::test]
async fn what_the_console_does_not_need_may_have_any_type() {
    let provider = Provider::start();
    provider.set_discovery(&json!({
        "op_tos_uri": "", "op_policy_uri": "/policy", "claims_parameter_supported": "true", "scopes_supported": "openid email",
        "response_types_supported": "code", "subject_types_supported": null, "id_token_signing_alg_values_supported": 1,
        "userinfo_endpoint": "", "token_endpoint_auth_methods_supported": "client_secret_post", "grant_types_supported": {},
    }));
    let console = provider.console(&[]).await;
    let claims = json!([
        {"amr": "pwd"}, {"acr": 1}, {"auth_time": "1795615113"}, {"updated_at": "Tue Jan 06 2026"}, {"name": {}},
        {"phone_number": 49_301_234, "address": "Berlin", "locale": 1, "zoneinfo": [], "picture": {}, "gender": 1},
        {"email": "ana@example.com", "email_verified": 1}, {"email": ["ana@example.com"], "azp": null, "nbf": null},
        {"nbf": "soon", "at_hash": "other", "azp": {}}, {"aud": ["connect", "other"], "azp": "connect"}, {"aud": ["project-2", "connect"]},
    ]);
    let answers = json!([{"expires_in": "300"}, {"expires_in": 299.99}, {"expires_in": -1},
        {"scope": ["openid"], "refresh_token": 1, "token_type": null}]);
    let rows = |all: Value, name: &str| all.as_array().expect("a list").iter().map(|row| json!({name: row})).collect();
    let changes: [Vec<Value>; 2] = [rows(claims, "claims"), rows(answers, "answer")];
    for (number, mut changed) in changes.into_iter().flatten().enumerate() {
        changed["claims"]["sub"] = json!(format!("id-{number}"));
        let mut visitor = console.visitor();
        let response = provider.sign_in(&mut visitor, &changed).await;
        assert_eq!(response.status, 303, "{changed}: {}\n{}", body(&response), console.program().logs());
        let shown = visitor.page("/agencies/acme").await;
        assert!(shown.contains(&format!("id-{number}")), "{changed}: {shown}");
    }
    for request in provider.server.received() {
        assert_eq!(request.header("user-agent"), USER_AGENT);
    }
    let mut visitor = console.visitor();
    let verified = json!({"claims": {"email": "ana@example.com", "email_verified": "True"}});
    assert_eq!(provider.sign_in(&mut visitor, &verified).await.status, 303);
    assert!(!visitor.page("/agencies/acme").await.contains("not verified"));
}

#[tokio::test]
async fn a_token_that_is_not_for_this_sign_in_is_refused_with_its_field() {
    let provider = Provider::start();
    let console = provider.console(&[]).await;
    let wrong = json!({
        "aud": {"claims": {"aud": ["connect", "project-1", "other"]}},
        "azp": {"claims": {"azp": "other"}},
        "iat": {"claims": {"iat": now() + 600}},
        "nonce": {"claims": {"nonce": "other"}},
        "alg": {"header": {"alg": "None"}},
        "kid": {"header": {"kid": "k2"}},
        "id_token": {"answer": {"id_token": null}},
        "error": {"answer": {"error": "invalid_client"}},
    });
    for (field, changed) in wrong.as_object().expect("a table") {
        assert_unusable(&provider.sign_in(&mut console.visitor(), changed).await, field);
    }
    // Repeated lines are limited, so the first one is there.
    console.program().until_logged("the provider's answer can't be used: alg: must be one of").await;
    assert_eq!(console.world.database.count("SELECT count(*) FROM console_sessions").await, 0);
}

#[tokio::test]
async fn an_answer_that_cannot_be_used_is_no_outage() {
    let provider = Provider::start();
    let console = provider.console(&[]).await;
    for (other, field) in [
        (json!({"jwks_uri": 5}), "jwks_uri"),
        (json!({"token_endpoint": "ldap://example.com"}), "token_endpoint"),
        (json!({"authorization_endpoint": null}), "authorization_endpoint"),
        (json!({"issuer": "https://attacker.example"}), "issuer"),
    ] {
        provider.set_discovery(&other);
        let program = Program::console(console.world.settings()).await;
        let response = program.http().get("/sign-in/oidc").await.expect("a response");
        assert_unusable(&response, field);
        assert!(body(&response).contains("links work without it"), "{}", body(&response));
        program.until_logged(&format!("the provider's answer can't be used: {field}")).await;
    }
    provider.set_discovery(&json!({}));
    let mut visitor = console.visitor();
    let many_headers = (0..150).fold(Behavior::status(400), |behavior, n| behavior.with_header(&format!("x-{n}"), "x"));
    for (behavior, status) in [
        (Behavior::status(200).with_body("<html>"), 403),
        (Behavior::status(404).with_body("<html>"), 403),
        (Behavior::status(400).with_body("{\"error\":\"invalid_grant\"}"), 403),
        (many_headers.with_body("{\"error\":\"invalid_grant\"}"), 403),
        (Behavior::Garbage("SSH-2.0-OpenSSH_9.2\r\n".into()), 403),
        (Behavior::status(500).with_body("{\"error\":\"server_error\"}"), 503),
        (Behavior::Reset, 503),
    ] {
        let url = begin(&mut visitor).await;
        provider.server.respond(TOKEN, behavior.clone());
        let response = complete(&mut visitor, &url).await;
        assert_eq!(response.status, status, "{behavior:?}: {}", body(&response));
    }
}

#[tokio::test]
async fn a_certificate_that_is_not_accepted_is_no_outage() {
    const NAMES: [&str; 1] = ["127.0.0.1"];
    let (trusted, own) = (Authority::new(), Authority::self_signed(&NAMES));
    let expired = Authority::expired_self_signed(&NAMES);
    for (presented, listed, why) in [
        (&trusted, &trusted, None),
        (&own, &own, None),
        (&trusted, &own, Some("not signed by a trusted authority; set CONNECT_OIDC_CA_FILE")),
        (&expired, &expired, Some("certificate expired at 2020-01-01")),
    ] {
        let provider = Provider::on(Receiver::https_for(presented, &NAMES));
        let file = listed.file().display().to_string();
        let console = provider.console(&[("CA_FILE", &file)]).await;
        let Some(why) = why else {
            assert_eq!(provider.sign_in(&mut console.visitor(), &json!({})).await.status, 303);
            continue;
        };
        assert_unusable(&console.visitor().get("/sign-in/oidc").await, "TLS");
        assert_eq!(provider.server.count(), 0, "{why}");
        console.program().until_logged(why).await;
    }
}
