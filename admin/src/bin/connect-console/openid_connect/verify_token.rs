//! Verifies an ID token: signature, issuer, audience, expiry, nonce, and that the access token belongs to it.

use super::claims::{Claims, OidcClient, Token, TokenResponse};
use openidconnect::core::CoreJwsSigningAlgorithm;
use openidconnect::{
    AccessTokenHash, ClaimsVerificationError, Nonce, OAuth2TokenResponse as _, TokenResponse as _,
};
use std::error::Error;

/// Algorithms whose keys only the provider has. Those of the client secret (HS256 and others) are refused.
const ALGORITHMS: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// Verifies the ID token of a response, and returns its claims.
pub(super) fn verify_token(
    client: &OidcClient,
    response: &TokenResponse,
    nonce: &Nonce,
) -> Result<Claims, ClaimsVerificationError> {
    let other = |text: &str| ClaimsVerificationError::Other(text.to_owned());
    let token: &Token = response.id_token().ok_or_else(|| other("no ID token"))?;
    let verifier = client.id_token_verifier().set_allowed_algs(ALGORITHMS);
    let claims = token.claims(&verifier, nonce)?;
    if let Some(expected) = claims.access_token_hash() {
        let unusable = |error: &dyn Error| other(&error.to_string());
        let algorithm = token.signing_alg().map_err(|error| unusable(&error))?;
        let key = token.signing_key(&verifier).map_err(|error| unusable(&error))?;
        let actual = AccessTokenHash::from_token(response.access_token(), algorithm, key);
        if actual.map_err(|error| unusable(&error))? != *expected {
            return Err(other("the access token does not belong to the ID token: at_hash differs"));
        }
    }
    Ok(claims.clone())
}

#[cfg(test)]
mod tests {
    use super::super::provider::describe;
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
    use openidconnect::core::{CoreEdDsaPrivateSigningKey, CoreHmacKey, CoreProviderMetadata};
    use openidconnect::{ClientId, ClientSecret, JsonWebKeyId, JsonWebKeySet, PrivateSigningKey};
    use serde_json::{Value, json};

    const ISSUER: &str = "https://login.example.com";
    const SECRET: &str = "client-secret";
    const NONCE: &str = "n-1";

    /// A key of Ed25519; its seed is 32 times the byte.
    fn key(seed: u8) -> CoreEdDsaPrivateSigningKey {
        const PKCS8: [u8; 16] = [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];
        let text = STANDARD.encode([&PKCS8[..], &[seed; 32]].concat());
        let pem = format!("-----BEGIN PRIVATE KEY-----\n{text}\n-----END PRIVATE KEY-----\n");
        CoreEdDsaPrivateSigningKey::from_ed25519_pem(&pem, Some(JsonWebKeyId::new("k1".to_owned()))).unwrap()
    }

    /// The account at a provider with key 1.
    fn client() -> OidcClient {
        let metadata: CoreProviderMetadata = serde_json::from_value(json!({
            "issuer": ISSUER,
            "authorization_endpoint": format!("{ISSUER}/authorize"),
            "token_endpoint": format!("{ISSUER}/token"),
            "jwks_uri": format!("{ISSUER}/jwks"),
            "response_types_supported": ["code"],
            "subject_types_supported": ["public"],
            "id_token_signing_alg_values_supported": ["EdDSA", "HS256", "none"],
        }))
        .unwrap();
        let metadata = metadata.set_jwks(JsonWebKeySet::new(vec![key(1).as_verification_key()]));
        let secret = Some(ClientSecret::new(SECRET.to_owned()));
        OidcClient::from_provider_metadata(metadata, ClientId::new("connect".to_owned()), secret)
    }

    /// The claims of a valid token, with some replaced.
    fn claims(replaced: Value) -> Value {
        let now = common::clock::now().timestamp();
        let mut claims = json!({
            "iss": ISSUER, "aud": "connect", "sub": "id-1", "nonce": NONCE, "iat": now, "exp": now + 60
        });
        let Value::Object(replaced) = replaced else { panic!("an object") };
        claims.as_object_mut().unwrap().extend(replaced);
        claims
    }

    fn signed(header: &Value, claims: &Value, sign: impl Fn(&[u8]) -> Vec<u8>) -> String {
        let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
        let message = format!("{}.{}", part(header), part(claims));
        let signature = URL_SAFE_NO_PAD.encode(sign(message.as_bytes()));
        format!("{message}.{signature}")
    }

    fn with_key(seed: u8, claims: &Value) -> String {
        let sign = |message: &[u8]| key(seed).sign(&CoreJwsSigningAlgorithm::EdDsa, message).unwrap();
        signed(&json!({"alg": "EdDSA", "kid": "k1"}), claims, sign)
    }

    fn verified(token: &str) -> Result<Claims, String> {
        let response = json!({"access_token": "at-1", "token_type": "bearer", "id_token": token});
        let response: TokenResponse = serde_json::from_value(response).map_err(|error| error.to_string())?;
        verify_token(&client(), &response, &Nonce::new(NONCE.to_owned())).map_err(|error| describe(&error))
    }

    #[test]
    fn a_token_of_the_provider_for_this_sign_in_is_accepted() {
        let accepted = verified(&with_key(1, &claims(json!({"groups": ["ops"]})))).unwrap();
        assert_eq!(accepted.subject().as_str(), "id-1");
    }

    #[test]
    fn a_token_with_a_wrong_claim_is_refused() {
        let now = common::clock::now().timestamp();
        for (wrong, reason) in [
            (json!({"iss": "https://login.example.com.attacker.example"}), "issuer"),
            (json!({"aud": "other"}), "audience"),
            (json!({"aud": ["connect", "other"]}), "audience"),
            (json!({"exp": now - 1}), "Expired"),
            (json!({"nonce": "n-2"}), "nonce"),
            (json!({"nonce": null}), "nonce"),
            (json!({"at_hash": "AAAAAAAAAAAAAAAAAAAAAA"}), "at_hash differs"),
        ] {
            let refused = verified(&with_key(1, &claims(wrong.clone()))).unwrap_err();
            assert!(refused.contains(reason), "{wrong}: {refused}");
        }
    }

    #[test]
    fn a_token_that_the_provider_has_not_signed_is_refused() {
        let right = claims(json!({}));
        let (message, signature) =
            with_key(1, &right).rsplit_once('.').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
        let changed = with_key(1, &claims(json!({"sub": "id-2"})));
        let (changed, _) = changed.rsplit_once('.').unwrap();
        let hmac = |message: &[u8]| {
            CoreHmacKey::new(SECRET).sign(&CoreJwsSigningAlgorithm::HmacSha256, message).unwrap()
        };
        for (what, token) in [
            ("another key", with_key(2, &right)),
            ("changed claims", format!("{changed}.{signature}")),
            ("no signature", format!("{message}.")),
            ("no algorithm", signed(&json!({"alg": "none"}), &right, |_| Vec::new())),
            ("the client's secret", signed(&json!({"alg": "HS256"}), &right, hmac)),
            ("no token", "a.b.c".to_owned()),
        ] {
            assert!(verified(&token).is_err(), "{what}");
        }
        assert!(verified(&format!("{message}.{signature}")).is_ok());
    }
}
