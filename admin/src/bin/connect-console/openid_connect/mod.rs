//! Sign-in by OpenID Connect: the code flow with PKCE at one provider, which the settings name.

mod claims;
mod id_token;
mod provider;
mod settings;
mod transport;

pub(crate) use provider::{Provider, ProviderError};
pub(crate) use settings::{OidcSettings, OptionalOidcSettings};
