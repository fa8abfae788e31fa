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
mod tests;
