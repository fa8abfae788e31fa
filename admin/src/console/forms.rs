//! Forms of the settings area: each acts once, however often it is sent (D41).
//!
//! A form has an id with a MAC under the token of the session, so that only this session can send it, and nothing is stored for
//! a form that is never sent. [`record`](crate::audit) spends the id in the transaction of the change.

use super::sessions::SESSION_MAX;
use crate::identity::{FormResult, SentForm, Session};
use crate::{AdminError, Result, store};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use common::clock;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::{Digest as _, Sha256};
use tokio_postgres::{Client, GenericClient};
use uuid::Uuid;

/// The id of a new form in a page of the session with this token.
pub fn new_form_id(token: &str) -> String {
    let id = Uuid::now_v7();
    URL_SAFE_NO_PAD.encode([id.as_bytes().as_slice(), &mac(token, id).finalize().into_bytes()].concat())
}

fn mac(token: &str, id: Uuid) -> Hmac<Sha256> {
    let mac = Hmac::<Sha256>::new_from_slice(token.as_bytes()).expect("HMAC takes keys of any length");
    mac.chain_update("connect/console-form/v1:").chain_update(id.as_bytes())
}

impl SentForm {
    /// A form with this id and content; `None` unless it is from a page of the session with this token.
    pub fn verify(session: &Session, token: &str, id: &str, content: &str) -> Option<Self> {
        let decoded = URL_SAFE_NO_PAD.decode(id).ok()?;
        let (id, sent) = decoded.split_at_checked(16)?;
        let id = Uuid::from_slice(id).ok()?;
        mac(token, id).verify_slice(sent).ok()?;
        Some(Self { tenant: session.tenant(), id, content_hash: Sha256::digest(content).into() })
    }

    /// What the form has led to if it has acted already. Refuses it if it had other content then.
    pub async fn result(&self, client: &Client) -> Result<Option<FormResult>> {
        match store::console::spent_form(client, self).await? {
            Some((true, result)) => Ok(Some(result)),
            Some((false, _)) => Err(AdminError::FormSpent),
            None => Ok(None),
        }
    }

    /// Lets the form be sent again: its operation, of several steps, has failed, and goes on where it was.
    pub(crate) async fn give_back(&self, client: &Client) -> Result<()> {
        store::console::give_back_form(client, self).await
    }

    /// Spends the form in the transaction of its change, whose audit record names `target`. Waits for another request with the
    /// same form that acts at the same time.
    pub(crate) async fn spend(&self, on: &impl GenericClient, result: &FormResult, target: &str) -> Result<()> {
        let result = FormResult { page: result.page.replace("{target}", target), ..result.clone() };
        if store::console::spend_form(on, self, &result, clock::now() + SESSION_MAX).await? {
            Ok(())
        } else {
            Err(AdminError::FormSpent)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::{Role, SignInMethod, SignedInIdentity};
    use crate::input::Name;
    use chrono::DateTime;

    #[test]
    fn a_form_belongs_to_its_session() {
        let person = Name::parse("Ada").unwrap();
        let session = Session {
            identity: SignedInIdentity { role: Role::Operator, tenant: None, person },
            tenant_slug: None,
            method: SignInMethod::Link,
            last_used_at: DateTime::UNIX_EPOCH,
        };
        let verify = |token, id: &str| SentForm::verify(&session, token, id, "content");
        let (one, other) = (new_form_id("cn_1"), new_form_id("cn_1"));
        assert!(verify("cn_1", &one).is_some() && verify("cn_1", &one) != verify("cn_1", &other));
        assert_eq!(verify("cn_2", &one), None, "of another session");
        let mixed = format!("{}{}", &one[..20], &other[20..]);
        for forged in ["", "!", "AAAA", &mixed, &one[..one.len() - 4], &format!("{one}AAAA")] {
            assert_eq!(verify("cn_1", forged), None, "{forged}");
        }
    }
}
