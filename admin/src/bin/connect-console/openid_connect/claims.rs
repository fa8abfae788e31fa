//! What an ID token says of a person.

use admin::AdminError;
use admin::console::{SignInMethod, VerifiedPerson};
use admin::input::Name;
use openidconnect::core::{
    CoreAuthDisplay, CoreAuthPrompt, CoreErrorResponseType, CoreGenderClaim, CoreJsonWebKey,
    CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm, CoreRevocableToken,
    CoreRevocationErrorResponse, CoreTokenIntrospectionResponse, CoreTokenType,
};
use openidconnect::{
    AdditionalClaims, Client, EmptyExtraTokenFields, EndpointMaybeSet, EndpointNotSet, EndpointSet, IdToken,
    IdTokenClaims, IdTokenFields, StandardErrorResponse, StandardTokenResponse,
};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Claims that the standard does not define.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct OtherClaims {
    #[serde(flatten)]
    all: Map<String, Value>,
}

impl AdditionalClaims for OtherClaims {}

/// The claims of an ID token.
pub(super) type Claims = IdTokenClaims<OtherClaims, CoreGenderClaim>;

/// An ID token.
pub(super) type Token =
    IdToken<OtherClaims, CoreGenderClaim, CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm>;

/// The response of the provider to a code.
pub(super) type TokenResponse = StandardTokenResponse<
    IdTokenFields<
        OtherClaims,
        EmptyExtraTokenFields,
        CoreGenderClaim,
        CoreJweContentEncryptionAlgorithm,
        CoreJwsSigningAlgorithm,
    >,
    CoreTokenType,
>;

/// The console's account at a provider whose discovery document was read.
pub(super) type OidcClient = Client<
    OtherClaims,
    CoreAuthDisplay,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJsonWebKey,
    CoreAuthPrompt,
    StandardErrorResponse<CoreErrorResponseType>,
    TokenResponse,
    CoreTokenIntrospectionResponse,
    CoreRevocableToken,
    CoreRevocationErrorResponse,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

/// The person whom verified claims are about. Their name is their email if the provider says that it has verified it: otherwise
/// anybody could enter somebody else's. Without that it is their id at the provider, followed by the email for readers.
pub(super) fn person(claims: &Claims, groups_claim: &str) -> Result<VerifiedPerson, AdminError> {
    let id = claims.subject().as_str();
    let name = match (claims.email(), claims.email_verified()) {
        (Some(email), Some(true)) => email.to_string(),
        (Some(email), Some(false) | None) => format!("{id} (email not verified: {})", email.as_str()),
        (None, _) => id.to_owned(),
    };
    let name = Name::parse(&name).or_else(|_| Name::parse(id))?;
    let groups = groups(claims.additional_claims().all.get(groups_claim));
    Ok(VerifiedPerson { name, groups, method: SignInMethod::OpenIdConnect })
}

/// Some providers send a text instead of a list if there is one group.
fn groups(claim: Option<&Value>) -> Vec<String> {
    match claim {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        Some(Value::String(name)) => vec![name.clone()],
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_)) | None => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(more: &Value) -> (String, Vec<String>) {
        let mut claims = json!({"iss": "https://a.example", "aud": ["c"], "sub": "id-1", "iat": 1, "exp": 2});
        let more = more.as_object().unwrap().clone();
        claims.as_object_mut().unwrap().extend(more);
        let claims: Claims = serde_json::from_value(claims).unwrap();
        let person = person(&claims, "groups").unwrap();
        (person.name.as_str().to_owned(), person.groups)
    }

    #[test]
    fn a_person_is_named_by_their_verified_email_or_by_their_id() {
        let name = |claims: Value| read(&claims).0;
        let unverified = "id-1 (email not verified: ana@example.com)";
        assert_eq!(name(json!({"email": "ana@example.com"})), unverified);
        assert_eq!(name(json!({"email": "ana@example.com", "email_verified": true})), "ana@example.com");
        assert_eq!(name(json!({"email": "ana@example.com", "email_verified": false})), unverified);
        assert_eq!(name(json!({"email": "a\nb", "email_verified": true})), "id-1");
        assert_eq!(name(json!({"email": "a\nb"})), "id-1");
        assert_eq!(name(json!({})), "id-1");
    }

    #[test]
    fn groups_are_a_list_of_texts_or_one_text() {
        let groups = |claims: Value| read(&claims).1;
        assert_eq!(groups(json!({"groups": ["a", 1, "b"]})), ["a", "b"]);
        assert_eq!(groups(json!({"groups": "a,b"})), ["a,b"]);
        for none in
            [json!({}), json!({"groups": null}), json!({"groups": {"a": true}}), json!({"roles": ["a"]})]
        {
            assert_eq!(groups(none), [""; 0]);
        }
    }
}
