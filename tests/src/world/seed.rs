//! Tenants and keys.

use crate::connectctl::Connectctl;
use crate::key::ApiKey;

/// Every scope there is.
pub const ALL_SCOPES: &str =
    "events:ingest,clients:read,clients:write,leads:read,leads:write,credit:write,webhooks:read";

/// Creates the tenant `acme` with the members Asha and Ben, and a key with every scope, for every test.
pub(crate) async fn seed(connectctl: &Connectctl) -> ApiKey {
    connectctl.json(&["tenant", "create", "--slug", "acme", "--name", "Acme Travel", "--discovery"]).await;
    for (email, name) in [("asha@acme.test", "Asha"), ("ben@acme.test", "Ben")] {
        connectctl.json(&["member", "add", "--tenant", "acme", "--email", email, "--name", name]).await;
    }
    create_key(connectctl, "acme", ALL_SCOPES).await
}

pub(crate) async fn create_key(connectctl: &Connectctl, tenant: &str, scopes: &str) -> ApiKey {
    let printed = connectctl.json(&["key", "create", "--tenant", tenant, "--name", "test", "--scopes", scopes]).await;
    ApiKey::of(tenant, &printed)
}
