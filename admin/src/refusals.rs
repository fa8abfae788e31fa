//! Why requests that named a key were refused, for the owner of the key (D35). Callers get one message for all of that.

pub use crate::store::refused_requests::RefusedRequest;
use crate::{AdminError, Newest, Result, store, tenants};
use common::model::TenantId;
use tokio_postgres::Client;
use uuid::Uuid;

/// Which refused requests are listed.
#[derive(Clone, Debug, Default)]
pub struct RefusalFilter {
    /// Slug of the tenant.
    pub tenant: String,
    /// Prefix of a key of the tenant: only those that named it.
    pub key: Option<String>,
    /// Only those before the one with this id: the next page begins before the first one of this page.
    pub before: Option<Uuid>,
}

/// The newest `limit` refused requests that the filter selects, newest last.
pub async fn list(client: &Client, filter: &RefusalFilter, limit: u32) -> Result<Newest<RefusedRequest>> {
    let tenant = tenants::find(client, &filter.tenant).await?;
    if let Some(key) = &filter.key
        && store::api_keys::tenant(client, key).await? != Some(tenant)
    {
        return Err(AdminError::KeyNotFound(key.clone()));
    }
    let before = filter.before.unwrap_or(Uuid::max());
    store::refused_requests::before(client, tenant, filter.key.as_deref(), before, limit).await
}

/// The refused request with this id, if its key belongs to the tenant.
pub async fn find_in(client: &Client, tenant: TenantId, id: &str) -> Result<RefusedRequest> {
    let not_found = || AdminError::RefusalNotFound(id.to_owned());
    let id = Uuid::try_parse(id).map_err(|_| not_found())?;
    store::refused_requests::find(client, &[tenant.0], id).await?.ok_or_else(not_found)
}

/// What a reason means, and what to do, for those who wrote the request.
pub fn advice(reason: &str) -> &'static str {
    match reason {
        "missing_header" => {
            "Send the three headers X-Connect-Key, X-Connect-Tenant and X-Connect-Signature with each request."
        }
        "repeated_header" => "Send each of the three headers once. A proxy or client library may have added it again.",
        "malformed_header" => {
            "The signature header is t=<seconds>,v1=<64 hex digits> on the events route, and v2= on the records routes."
        }
        "revoked_key" => "The key was revoked. Use another one.",
        "expired_key" => "The key has expired. Use another one.",
        "wrong_scheme" => "Use v1 on the events route, and v2 on the records routes: they sign different texts.",
        "stale" => {
            "Synchronize the clock of the machine that signs, and sign each attempt when it is sent, not when it is queued."
        }
        "mismatch" => {
            "The MAC was computed with another secret, or over another text than the one that was received. The signature check below finds out which."
        }
        "tenant" => "X-Connect-Tenant must have the short name of the agency to which the key belongs.",
        "scope" => "The key does not permit this route. An administrator of the agency can change its scopes.",
        "replayed" => {
            "The signature was used before. Sign each attempt again, with the current time; on POST of the records API keep the Idempotency-Key."
        }
        "rate_limited" => "The key reads more often per second than the agency may. Wait as long as Retry-After says.",
        "quota_exceeded" => "The writes of this month are used up. The operator can raise the quota.",
        "idempotency_key_reused" => {
            "The Idempotency-Key was used with another body. Use a new one for each new request."
        }
        "overloaded" | "replay_store_unavailable" => {
            "Nothing was applied. Send the request again, after the time that Retry-After names."
        }
        "processing_timeout" => {
            "It may have been applied: send it again with the same event ids, or the same Idempotency-Key."
        }
        "internal_error" => "The operator finds the reason in the log, by the id of the request.",
        _ => "The response told what is wrong, in code and message. The same request will be refused again.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_reason_has_an_advice_of_its_own() {
        let others = advice("invalid_request");
        for reason in ["missing_header", "malformed_header", "stale", "mismatch", "tenant", "scope", "replayed"] {
            assert_ne!(advice(reason), others, "{reason}");
        }
    }
}
