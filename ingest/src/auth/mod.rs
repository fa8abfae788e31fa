//! Authentication: steps 1 to 6 of D1, in its order, for any route. They change nothing; step 7 is `replay`.

mod checks;
mod credentials;
mod failure;
mod key;
mod key_uses;
mod key_watch;
mod keys;

pub(crate) use credentials::SIGNATURE;
pub use failure::AuthFailure;
pub(crate) use failure::{AuthError, FailedCheck};
pub(crate) use key::ApiKey;
pub(crate) use key_uses::KeyUses;
pub(crate) use key_watch::watch_keys;
pub(crate) use keys::Keys;

use crate::http::RequestHead;
use crate::refusal::Refusal;
use bytes::Bytes;
use common::caller::Caller;
use common::clock;
use common::model::Scope;
use common::signature::{Scheme, Signature};
use credentials::Credentials;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Checks credentials; shared by all routes.
#[derive(Debug)]
pub(crate) struct Auth {
    keys: Arc<Keys>,
    uses: KeyUses,
    within: Duration,
}

/// A request that passed steps 1 to 6.
#[derive(Debug)]
pub(crate) struct Verified {
    key: Arc<ApiKey>,
    /// The number of the secret that it was signed with.
    secret_number: i32,
    signature: Signature,
    /// Until when the request waits for the database.
    deadline: Instant,
}

impl Verified {
    pub(crate) fn caller(&self) -> &Caller {
        &self.key.caller
    }

    /// Records reads that its key may do per second (D23).
    pub(crate) fn reads_per_second(&self) -> u32 {
        self.key.reads_per_second
    }

    pub(crate) const fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Until when the request waits for the database.
    pub(crate) const fn deadline(&self) -> Instant {
        self.deadline
    }
}

impl Auth {
    /// `within` bounds what one request waits for the database, keys and replay protection together.
    pub(crate) const fn new(keys: Arc<Keys>, uses: KeyUses, within: Duration) -> Self {
        Self { keys, uses, within }
    }

    /// Steps 1 to 6 of D1 for a route with `scheme` and `scope`. [`AuthError::Unavailable`], 503
    /// `replay_store_unavailable`, when the database does not confirm the keys in time.
    pub(crate) async fn verify(
        &self, head: &RequestHead, body: &Bytes, scheme: Scheme, scope: Scope,
    ) -> Result<Verified, AuthError> {
        let deadline = self.deadline();
        let Credentials { key: prefix, tenant, signature } = Credentials::parse(&head.headers)?;
        // The timestamp of a signature is of the caller's clock, the times of a key are of the database's.
        let received_at = clock::now().timestamp();
        let check = async || {
            let key = self.keys.find(&prefix, deadline).await?;
            let owner = key.as_ref().map(|key| Arc::clone(&key.caller));
            let signed = checks::signed(scheme, head, body);
            let checked = checks::check_signature(key, &signature, signed, received_at, clock::database_now());
            Ok::<_, Refusal>(checked.map_err(|failure| (failure, owner)))
        };
        let checked = async {
            let loads = self.keys.loads();
            let checked = check().await?;
            let is_outdated = checked.is_err() && self.keys.ask_before_refusal(&prefix, loads, deadline).await?;
            if is_outdated { check().await } else { Ok(checked) }
        };
        let checked = checked.await.map_err(|unavailable| {
            let known = self.keys.last_known(&prefix).and_then(Result::ok);
            let signed = checks::signed(scheme, head, body);
            let checked = checks::check_signature(known, &signature, signed, received_at, clock::database_now());
            let signer = checked.ok().map(|(key, secret)| {
                let secret_number = key.number_of(secret);
                Box::new(Verified { key, secret_number, signature: signature.clone(), deadline })
            });
            AuthError::Unavailable(unavailable, signer)
        })?;
        let failed = |failure, owner| {
            let (key, signature) = (Some(prefix.clone()), Some(signature.clone()));
            Box::new(FailedCheck { failure, key, owner, header: None, signature })
        };
        let (key, secret) = checked.map_err(|(failure, owner)| failed(failure, owner))?;
        self.uses.note(&key, secret, clock::database_now());
        drop(head.caller.set(Arc::clone(&key.caller)));
        checks::check_use(&key.caller, tenant, scope)
            .map_err(|failure| failed(failure, Some(Arc::clone(&key.caller))))?;
        Ok(Verified { secret_number: key.number_of(secret), key, signature, deadline })
    }

    /// Until when what begins now waits for the database.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.within
    }

    /// Checks again what may have changed since a request was verified that still waits (D5): whether its key is
    /// active, and has its secret and `scope`.
    pub(crate) async fn check_again(&self, verified: &Verified, scope: Scope) -> Result<(), Refusal> {
        let Caller { key: prefix, tenant, .. } = verified.caller();
        let key = self.keys.find(prefix, self.deadline()).await?;
        let checked = key.ok_or(AuthFailure::UnknownKey).and_then(|key| {
            let now = clock::database_now();
            key.check_active(now)?;
            key.check_secret(verified.secret_number, now)?;
            checks::check_use(&key.caller, tenant, scope)
        });
        checked.map_err(|failure| failure.refuse(Some(verified.caller())))
    }
}
