//! Why requests that name a key were refused, for the owner of the key (D35), and how many requests each key makes.
//!
//! A request only notes its refusal in memory; a task writes the notes of each second together. What cannot be noted or
//! written is counted and lost: a refusal waits for nothing and takes as long as if nothing were recorded.
//!
//! Each of three groups has a list with the same bounds: existing keys, keys that do not exist, and prefixes in malformed headers,
//! which are not looked up. So whether a key exists makes no difference to a request, and nobody can displace the notes of
//! existing keys by naming others.

mod detail;
mod notes;
mod sampling;
mod writer;

pub(crate) use notes::RefusedNote;
pub(crate) use writer::KeyRequestRecorder;

use crate::auth::{AuthFailure, HeaderFault, Verified};
use crate::http::RequestHead;
use crate::http::route::Route;
use crate::refusal::Refusal;
use bytes::Bytes;
use common::clock;
use common::model::{KeyPrefix, Scope};
use common::signature::Signature;
use notes::NamedKey;

impl KeyRequestRecorder {
    /// Notes a request whose three headers are not well formed, if it names a key at all.
    pub(crate) fn note_headers(&self, head: &RequestHead, body: &Bytes, fault: &HeaderFault) {
        let Some(key) = &fault.key else { return };
        let detail = Some(detail::of_header(&head.headers, fault));
        let note = note(head, body, (401, fault.failure.as_str()), detail);
        self.add(NamedKey::NotLookedUp, key, note);
    }

    /// Notes a request whose signature was refused. `exists` says whether there is such a key, which no caller may be
    /// able to observe.
    pub(crate) fn note_signature(
        &self,
        head: &RequestHead,
        body: &Bytes,
        (key, exists): (&KeyPrefix, bool),
        signature: &Signature,
        failure: AuthFailure,
    ) {
        let now = clock::now();
        let detail = detail::of_signature(failure, signature, now.timestamp());
        let named = if exists { NamedKey::Exists } else { NamedKey::DoesNotExist };
        let refused = note(head, body, (401, failure.as_str()), detail);
        self.add(named, key, RefusedNote { signed_at: Some(signature.timestamp()), ..refused });
    }

    /// Notes a request with a valid signature that its key may not make: of another tenant, or without the scope.
    pub(crate) fn note_use(
        &self,
        head: &RequestHead,
        body: &Bytes,
        (key, signature): (&KeyPrefix, &Signature),
        failure: AuthFailure,
        scope: Scope,
    ) {
        let refused = note(head, body, (403, failure.as_str()), detail::of_use(failure, scope));
        self.add(NamedKey::Exists, key, RefusedNote { signed_at: Some(signature.timestamp()), ..refused });
    }

    /// Counts a request with valid credentials, and notes it if it was refused. Not every status of 400 or above is a refusal
    /// in this sense: those that describe the state of a record (404, 409 and 412) are regular results, and those from 500 on are no fault of the
    /// caller.
    pub(crate) fn note_result<T>(
        &self,
        head: &RequestHead,
        body: &Bytes,
        verified: &Verified,
        result: &Result<T, Refusal>,
    ) {
        let key = &verified.caller().key;
        let Err(refusal) = result else { return self.count_accepted(key) };
        // The only failure of authentication that is left once a request is verified.
        let is_replayed = matches!(refusal, Refusal::Unauthorized);
        let (reason, detail) = if is_replayed {
            (AuthFailure::Replayed.as_str().to_owned(), None)
        } else {
            detail::of_refusal(refusal)
        };
        match refusal.status().as_u16() {
            500.. => {}
            404 | 409 | 412 => self.count_accepted(key),
            status => {
                let refused = note(head, body, (status, &reason), detail);
                let signed_at = Some(verified.signature().timestamp());
                self.add(NamedKey::Exists, key, RefusedNote { signed_at, ..refused });
            }
        }
    }
}

fn note(
    head: &RequestHead,
    body: &Bytes,
    (status, reason): (u16, &str),
    detail: Option<String>,
) -> RefusedNote {
    RefusedNote {
        request_id: head.request_context.request_id,
        at: clock::now(),
        method: head.method.clone(),
        route: Route::at(head.uri.path()).map_or("", |(route, _)| route.pattern()),
        status,
        reason: reason.to_owned(),
        detail,
        signed_at: None,
        body: body.clone(),
    }
}
