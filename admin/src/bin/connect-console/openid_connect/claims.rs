//! What the verified claims of an ID token say of a person.

use super::ProviderError;
use admin::console::{SignInMethod, VerifiedPerson};
use admin::input::Name;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

/// The person whom verified claims are about. Their name is their email if the provider says that it has verified it: otherwise
/// anybody could enter somebody else's. Without that it is their id at the provider, followed by the email for readers.
pub(super) fn person(claims: &Map<String, Value>, groups_claim: &str) -> Result<VerifiedPerson, ProviderError> {
    let text = |name| claims.get(name).and_then(Value::as_str);
    let id = text("sub").unwrap_or_default();
    let is_verified = claims.get("email_verified") == Some(&Value::Bool(true))
        || text("email_verified").is_some_and(|verified| verified.eq_ignore_ascii_case("true"));
    let name = match text("email") {
        Some(email) if is_verified => email.to_owned(),
        Some(email) => format!("{id} (email not verified: {email})"),
        None => id.to_owned(),
    };
    let name = Name::of_person(&name).or_else(|_| Name::of_person(id)).or_else(|_| Name::of_person(&short(id)));
    let name = name.map_err(|error| ProviderError::unusable("sub", &error.to_string()))?;
    let groups = groups(claims.get(groups_claim));
    Ok(VerifiedPerson { name, groups, method: SignInMethod::OpenIdConnect })
}

/// An id that is too long for a name, with a digest, so that no two people have the same.
fn short(id: &str) -> String {
    let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(id));
    id.chars().take(100).chain(['-']).chain(digest.chars()).collect()
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

    fn read(mut claims: Value) -> (String, Vec<String>) {
        claims["sub"] = json!("id-1");
        let person = person(claims.as_object().unwrap(), "groups").unwrap();
        (person.name.as_str().to_owned(), person.groups)
    }

    #[test]
    fn a_long_id_is_shortened_and_stays_the_only_one() {
        let name = |id: &str| person(json!({"sub": id}).as_object().unwrap(), "groups").unwrap().name;
        let long = "x".repeat(255);
        assert!(name(&long).as_str().starts_with(&"x".repeat(100)));
        assert_ne!(name(&long).as_str(), name(&format!("{}y", &long[1..])).as_str());
    }

    #[test]
    fn a_person_is_named_by_their_verified_email_or_by_their_id() {
        let name = |claims: Value| read(claims).0;
        let unverified = "id-1 (email not verified: ana@example.com)";
        assert_eq!(name(json!({"email": "ana@example.com"})), unverified);
        for verified in [json!(true), json!("true"), json!("True")] {
            let claims = json!({"email": "ana@example.com", "email_verified": verified});
            assert_eq!(name(claims), "ana@example.com");
        }
        for not in [json!(false), json!("yes"), json!(1), json!(null), json!([true])] {
            assert_eq!(name(json!({"email": "ana@example.com", "email_verified": not})), unverified);
        }
        for unusable in [json!("a\nb"), json!("an\u{200b}a@example.com"), json!(""), json!(["ana@example.com"])] {
            assert_eq!(name(json!({"email": unusable, "email_verified": true})), "id-1");
        }
        assert_eq!(name(json!({"email": "a\nb"})), "id-1");
        assert_eq!(name(json!({})), "id-1");
    }

    #[test]
    fn groups_are_a_list_of_texts_or_one_text() {
        let groups = |claims: Value| read(claims).1;
        assert_eq!(groups(json!({"groups": ["a", 1, "b"]})), ["a", "b"]);
        assert_eq!(groups(json!({"groups": "a,b"})), ["a,b"]);
        for none in [json!({}), json!({"groups": null}), json!({"groups": {"a": true}}), json!({"roles": ["a"]})] {
            assert_eq!(groups(none), [""; 0]);
        }
    }
}
