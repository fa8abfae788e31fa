//! The whole check of an ID token (OpenID Connect Core, 3.1.3.7): algorithm, key, signature, and the table of its claims.

use super::ProviderError;
use super::settings::OidcSettings;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use openidconnect::JsonWebKey as _;
use openidconnect::core::{CoreJsonWebKey, CoreJwsSigningAlgorithm};
use serde_json::{Map, Value};

/// Algorithms whose keys only the provider has. Those of the client secret (HS256 and others) are refused.
const ALGORITHMS: [&str; 9] = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"];
/// The fields of a public key (RFC 7517 and 7518); all are texts.
const KEY_FIELDS: [&str; 9] = ["kty", "kid", "use", "alg", "crv", "x", "y", "n", "e"];
/// How far the provider's clock may be from the console's, in seconds.
const LEEWAY: f64 = 60.0;

/// An ID token whose signature is not verified yet.
pub(super) struct SignedToken<'t> {
    /// Header and claims, as they are signed.
    message: &'t str,
    claims: &'t str,
    signature: Vec<u8>,
    algorithm: CoreJwsSigningAlgorithm,
    key_id: Option<String>,
}

/// A key of the provider; `None` if the console has no use for keys of its kind. Fields that are no texts mean nothing to it.
pub(super) fn key(jwk: &Value) -> Option<CoreJsonWebKey> {
    let mut fields = jwk.as_object()?.clone();
    fields.retain(|name, value| KEY_FIELDS.contains(&name.as_str()) && value.is_string());
    serde_json::from_value(Value::Object(fields)).ok()
}

impl<'t> SignedToken<'t> {
    pub(super) fn parse(token: &'t str) -> Result<Self, ProviderError> {
        let malformed = || ProviderError::unusable("id_token", "must be a JSON Web Token with a signature");
        let (message, signature) = token.rsplit_once('.').ok_or_else(malformed)?;
        let (header, claims) = message.split_once('.').ok_or_else(malformed)?;
        let header = object(header).ok_or_else(malformed)?;
        let signature = URL_SAFE_NO_PAD.decode(signature).map_err(|_| malformed())?;
        let algorithm = header.get("alg").filter(|alg| ALGORITHMS.iter().any(|allowed| *alg == allowed));
        let algorithm = algorithm.and_then(|alg| serde_json::from_value(alg.clone()).ok());
        let algorithm = algorithm
            .ok_or_else(|| ProviderError::unusable("alg", &format!("must be one of {}", ALGORITHMS.join(", "))))?;
        if header.contains_key("crit") {
            return Err(ProviderError::unusable("crit", "names extensions that the console does not have"));
        }
        let key_id = header.get("kid").and_then(Value::as_str).map(str::to_owned);
        Ok(Self { message, claims, signature, algorithm, key_id })
    }

    /// The only key that the token can be signed with.
    pub(super) fn key(&self, keys: &[CoreJsonWebKey]) -> Option<CoreJsonWebKey> {
        let is_named = |key: &CoreJsonWebKey| {
            self.key_id.as_ref().is_none_or(|id| key.key_id().is_some_and(|key| key.as_str() == id))
        };
        // Fails for a key of another kind, algorithm or use.
        let fits = |key: &CoreJsonWebKey| key.hash_bytes(&[], &self.algorithm).is_ok();
        let mut fitting = keys.iter().filter(|key| is_named(key) && fits(key));
        let key = fitting.next()?;
        fitting.next().is_none().then(|| key.clone())
    }

    /// The claims, if `key` has signed them.
    pub(super) fn verified_claims(&self, key: &CoreJsonWebKey) -> Result<Map<String, Value>, ProviderError> {
        key.verify_signature(&self.algorithm, self.message.as_bytes(), &self.signature)
            .map_err(|error| ProviderError::unusable("signature", &error.to_string()))?;
        object(self.claims).ok_or_else(|| ProviderError::unusable("id_token", "must have an object of claims"))
    }
}

/// Checks verified claims at the time `now`, in seconds since 1970. Those that are not in the table may have any value and type
/// (D43); of `azp` and `nbf` only a text and a number mean something.
pub(super) fn check(
    claims: &Map<String, Value>, settings: &OidcSettings, nonce: &str, now: f64,
) -> Result<(), ProviderError> {
    let claim = |name: &str| claims.get(name).unwrap_or(&Value::Null);
    let seconds = |name| claim(name).as_f64();
    let is_past = |name| seconds(name).is_some_and(|time| time <= now + LEEWAY);
    let is_future = |name| seconds(name).is_some_and(|time| time > now - LEEWAY);
    let audiences = claim("aud").as_array().map_or(std::slice::from_ref(claim("aud")), Vec::as_slice);
    let is_ours = |audience: &Value| *audience == settings.client_id;
    let is_trusted = |one: &Value| is_ours(one) || settings.audiences.iter().any(|other| one == other);
    let is_for_us = is_ours(claim("azp"));
    let table = [
        ("iss", *claim("iss") == settings.issuer, "CONNECT_OIDC_ISSUER"),
        ("sub", claim("sub").as_str().is_some_and(|sub| !sub.is_empty()), "a text that is not empty"),
        ("azp", !claim("azp").is_string() || is_for_us, "the client id, if it is there"),
        ("aud", audiences.iter().any(is_ours), "the client id, or have it among others"),
        ("aud", is_for_us || audiences.iter().all(is_trusted), "trusted by azp or CONNECT_OIDC_AUDIENCES"),
        ("exp", is_future("exp"), "a time in the future"),
        ("iat", is_past("iat"), "a time that is not in the future"),
        ("nbf", seconds("nbf").is_none() || is_past("nbf"), "a time that is not in the future"),
        ("nonce", claim("nonce") == nonce, "that of this sign-in"),
    ];
    match table.into_iter().find(|(_, holds, _)| !holds) {
        None => Ok(()),
        Some((name, _, rule)) => {
            Err(ProviderError::unusable(name, &format!("the claim must be {rule}, and is {}", claim(name))))
        }
    }
}

/// A part of a token.
fn object(part: &str) -> Option<Map<String, Value>> {
    serde_json::from_slice(&URL_SAFE_NO_PAD.decode(part).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::engine::general_purpose::STANDARD;
    use openidconnect::core::{CoreEdDsaPrivateSigningKey, CoreHmacKey};
    use openidconnect::{JsonWebKeyId, PrivateSigningKey as _};
    use serde_json::json;

    const NOW: u32 = 1_777_629_600;

    /// The claim that is refused, of a valid token with some claims replaced.
    fn refused(replaced: &Value) -> Option<&'static str> {
        let settings = OidcSettings::for_tests();
        let mut claims = json!({
            "iss": settings.issuer, "aud": "connect", "sub": "id-1", "nonce": "n-1", "iat": NOW, "exp": NOW + 300
        });
        claims.as_object_mut().unwrap().extend(replaced.as_object().unwrap().clone());
        let checked = check(claims.as_object().unwrap(), &settings, "n-1", NOW.into());
        checked.as_ref().err().map(field)
    }

    fn field(error: &ProviderError) -> &'static str {
        let ProviderError::Unusable { field, .. } = error else { panic!("{error}") };
        field
    }

    #[test]
    fn each_claim_has_values_that_are_accepted_and_refused() {
        let table = json!({
            "iss": [[], ["http://127.0.0.1:9/", "http://127.0.0.1:99", ["http://127.0.0.1:9"], null]],
            "sub": [[], ["", 1, null]],
            "azp": [["connect", null, 1, ["connect"]], ["other", "project-1"]],
            "aud": [["connect", ["connect"], ["connect", "connect"], ["project-2", "connect", "project-1"]],
                ["other", "project-1", ["connect", "other"], ["connect", "project-1", "other"], ["connect", 1],
                ["connect", ""], [["connect"]], [], null]],
            "exp": [[NOW - 59, f64::from(NOW) + 0.5], [NOW - 60, "9999999999", null]],
            "iat": [[NOW + 60, 0], [NOW + 61, "1", null]],
            "nbf": [[NOW + 60, null, "1"], [NOW + 61]],
            "nonce": [["n-1"], ["n-2", null]],
            "at_hash": [["other", 1], []],
            "auth_time": [["1", 1.5, {}], []], "amr": [["pwd"], []], "acr": [[1], []], "updated_at": [["x"], []],
            "name": [[{}], []], "phone_number": [[1], []],
        });
        for (claim, values) in table.as_object().unwrap() {
            for (column, expected) in [(0, None), (1, Some(claim.as_str()))] {
                for value in values[column].as_array().unwrap() {
                    assert_eq!(refused(&json!({claim: value})), expected, "{claim}: {value}");
                }
            }
        }
        assert_eq!(refused(&json!({"aud": ["other", 1, "connect"], "azp": "connect"})), None);
        assert_eq!(refused(&json!({"aud": "other", "azp": "connect"})), Some("aud"));
        assert_eq!(refused(&json!({"aud": ["connect", "other"], "azp": "other"})), Some("azp"));
    }

    /// A key of Ed25519; its seed is 32 times the byte.
    fn signing_key(seed: u8) -> CoreEdDsaPrivateSigningKey {
        const PKCS8: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
        let text = STANDARD.encode([&PKCS8[..], &[seed; 32]].concat());
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n");
        CoreEdDsaPrivateSigningKey::from_ed25519_pem(&pem, Some(JsonWebKeyId::new("k1".to_owned()))).unwrap()
    }

    fn public(seed: u8, other: &Value) -> CoreJsonWebKey {
        let mut jwk = serde_json::to_value(signing_key(seed).as_verification_key()).unwrap();
        jwk.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
        key(&jwk).unwrap()
    }

    fn signed(header: &Value, claims: &str, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
        let message = format!("{}.{}", URL_SAFE_NO_PAD.encode(header.to_string()), URL_SAFE_NO_PAD.encode(claims));
        let signature = URL_SAFE_NO_PAD.encode(sign(message.as_bytes()));
        format!("{message}.{signature}")
    }

    fn with_key(seed: u8, header: &Value) -> String {
        signed(header, "{\"sub\":\"id-1\"}", |message| {
            signing_key(seed).sign(&CoreJwsSigningAlgorithm::EdDsa, message).unwrap()
        })
    }

    /// The subject of a token, or the field that cannot be used.
    fn verified(token: &str, keys: &[CoreJsonWebKey]) -> Result<Value, &'static str> {
        let verified = SignedToken::parse(token).and_then(|token| {
            let key = token.key(keys).ok_or_else(|| ProviderError::unusable("kid", "is unknown"))?;
            token.verified_claims(&key)
        });
        verified.map(|claims| claims["sub"].clone()).map_err(|error| field(&error))
    }

    #[test]
    fn only_a_token_that_the_provider_has_signed_with_its_own_key_is_accepted() {
        let keys = [public(1, &json!({"x5c": 1, "use": ["sig"]}))];
        let header = json!({"alg": "EdDSA", "kid": "k1", "typ": 1});
        let right = with_key(1, &header);
        assert_eq!(verified(&right, &keys), Ok(json!("id-1")));
        let (message, signature) = right.rsplit_once('.').unwrap();
        let changed = signed(&header, "{\"sub\":\"id-2\"}", |_| Vec::new());
        let hmac = |message: &[u8]| {
            CoreHmacKey::new("client-secret").sign(&CoreJwsSigningAlgorithm::HmacSha256, message).unwrap()
        };
        for (token, field) in [
            (with_key(2, &header), "signature"),
            (format!("{changed}{signature}"), "signature"),
            (format!("{message}."), "signature"),
            (signed(&json!({"alg": "HS256"}), "{}", hmac), "alg"),
            ("a.b.c".to_owned(), "id_token"),
            (format!("{right}.a"), "id_token"),
            (message.to_owned(), "id_token"),
        ] {
            assert_eq!(verified(&token, &keys), Err(field), "{token}");
        }
        let headers = json!({
            "alg": [{"alg": "none"}, {"alg": "None"}, {"alg": "eddsa", "kid": "k1"}, {"alg": ["EdDSA"]}, {"kid": "k1"}],
            "crit": [{"alg": "EdDSA", "crit": ["b64"]}],
            "kid": [{"alg": "EdDSA", "kid": "k2"}, {"alg": "RS256", "kid": "k1"}],
        });
        for (field, headers) in headers.as_object().unwrap() {
            for header in headers.as_array().unwrap() {
                assert_eq!(verified(&with_key(1, header), &keys), Err(field.as_str()), "{header}");
            }
        }
    }

    #[test]
    fn a_token_without_the_name_of_its_key_needs_a_provider_with_one_that_fits() {
        let token = with_key(1, &json!({"alg": "EdDSA", "kid": 1}));
        let other = public(2, &json!({"kid": "k2"}));
        assert_eq!(verified(&token, &[public(1, &json!({}))]), Ok(json!("id-1")));
        assert_eq!(verified(&token, &[public(1, &json!({})), other.clone()]), Err("kid"), "ambiguous");
        for unfit in [json!({"use": "enc"}), json!({"alg": "RS256"}), json!({"kty": "RSA"})] {
            assert_eq!(verified(&token, &[public(2, &unfit), public(1, &json!({}))]), Ok(json!("id-1")), "{unfit}");
        }
        let named = with_key(1, &json!({"alg": "EdDSA", "kid": "k1"}));
        assert_eq!(verified(&named, &[other, public(1, &json!({}))]), Ok(json!("id-1")));
        for unknown in [json!(1), json!({}), json!({"kty": "LMS", "kid": "k1"}), json!({"kty": 1})] {
            assert!(key(&unknown).is_none(), "{unknown}");
        }
    }
}
