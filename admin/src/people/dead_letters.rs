//! Messages of dead-letter queues, and advisor actions that wait, that name a person, for their export and erasure (D32).

use super::{IdentityHashes, StoredDeadLetter};
use crate::store::people;
use crate::{Observer, ProgressStep, Result};
use chrono::{DateTime, Utc};
use common::broker::{DeadLetter, DeadLetterAction, OperatorConnection, OperatorConnectionError, Queue, Window};
use common::erasure::{ErasureKey, PersonIdentity};
use common::model::text::is_blank;
use common::model::{Email, Phone, TenantId};
use serde_json::Value;
use tokio_postgres::GenericClient;
use uuid::Uuid;

/// Recognizes the messages that name a person, by the ids of their records and by their identities.
#[derive(Debug)]
pub(super) struct MessageMatcher {
    tenant: TenantId,
    slug: String,
    key: ErasureKey,
    /// An identity in a message that was published after its time is that of another client.
    hashes: IdentityHashes,
    ids: Vec<String>,
}

/// When a message was published, if it says so.
type PublishedAt = Option<DateTime<Utc>>;

impl MessageMatcher {
    pub(super) fn new((tenant, slug): (TenantId, &str), key: ErasureKey, hashes: IdentityHashes, ids: &[Uuid]) -> Self {
        let ids = ids.iter().map(Uuid::to_string).collect();
        Self { tenant, slug: slug.to_owned(), key, hashes, ids }
    }

    /// Whether a message with this metadata and body names the person.
    fn matches(&self, meta: Option<&str>, body: &[u8]) -> bool {
        let text = String::from_utf8_lossy(body);
        let has_id = |id: &String| text.contains(id.as_str()) || meta.is_some_and(|meta| meta.contains(id));
        if self.ids.iter().any(has_id) {
            return true;
        }
        let meta: Option<Value> = meta.and_then(|meta| serde_json::from_str(meta).ok());
        if self.is_of_another_tenant(meta.as_ref()) {
            return false;
        }
        let published_at = meta.and_then(|meta| meta["publishedAt"].as_str()?.parse().ok());
        match serde_json::from_slice::<Value>(body) {
            Ok(body) if self.is_foreign(&body) => false,
            Ok(mut body) => {
                let events = body.as_object_mut().and_then(|fields| fields.remove("events"));
                let mut events = events.iter().flat_map(|events| events.as_array().into_iter().flatten());
                events.any(|event| !self.is_foreign(event) && self.names(event, published_at))
                    || self.names(&body, published_at)
            }
            Err(_) => self.text_names(&text, published_at),
        }
    }

    fn is_of_another_tenant(&self, meta: Option<&Value>) -> bool {
        let id = meta.and_then(|meta| meta["caller"]["tenantId"].as_str().or(meta["tenantId"].as_str()));
        id.is_some_and(|id| Uuid::try_parse(id) != Ok(self.tenant.0))
    }

    /// Whether an event or action is of another tenant.
    fn is_foreign(&self, message: &Value) -> bool {
        let tenant = message["tenant"].as_str();
        tenant.is_some_and(|tenant| !tenant.trim().eq_ignore_ascii_case(&self.slug))
    }

    /// Whether an object anywhere in the JSON has an identity of the person.
    fn names(&self, value: &Value, at: PublishedAt) -> bool {
        match value {
            Value::Object(fields) => {
                let text = |field: &str| fields.get(field)?.as_str().filter(|text| !is_blank(text));
                // Of a lead it is the lead's own id.
                let is_lead = ["contact", "clientId"].into_iter().any(|field| fields.contains_key(field));
                // Only the first identity that is not empty names somebody (D10).
                let is_person = if let Some(email) = text("email") {
                    self.is_email(email, at)
                } else if let Some(id) = text("externalId").filter(|_| !is_lead) {
                    self.is_external_id(id, at)
                } else {
                    text("phone").is_some_and(|phone| self.is_phone(phone, at))
                };
                is_person || fields.values().any(|value| self.names(value, at))
            }
            Value::Array(items) => items.iter().any(|item| self.names(item, at)),
            Value::String(text) => self.ids.iter().any(|id| text.eq_ignore_ascii_case(id)),
            Value::Null | Value::Bool(_) | Value::Number(_) => false,
        }
    }

    /// Whether a text that is no JSON contains the person's email as a word, or an identity between quotation marks, with or without
    /// the escapes of JSON. An id is one behind its field's name.
    fn text_names(&self, text: &str, at: PublishedAt) -> bool {
        let words = text.split(|c: char| c.is_whitespace() || "\"'<>,;:(){}[]".contains(c));
        let is = |word: &str| self.is_email(word, at) || self.is_phone(word, at);
        // A backslash at the end belongs to a quotation mark.
        let unescaped = |word: &str| serde_json::from_str(&format!("\"{}\"", word.trim_end_matches('\\'))).ok();
        let has = |word: &str, is: &dyn Fn(&str) -> bool| {
            is(word) || (word.contains('\\') && unescaped(word).is_some_and(|word: String| is(&word)))
        };
        let quoted: Vec<&str> = text.split('"').collect();
        let is_id = |part: &[&str]| {
            part[0].trim_end_matches('\\') == "externalId" && has(part[2], &|id| self.is_external_id(id, at))
        };
        words.chain(quoted.iter().copied()).any(|word| !word.is_empty() && has(word, &is))
            || quoted.windows(3).any(is_id)
    }

    fn is_email(&self, text: &str, at: PublishedAt) -> bool {
        Email::parse(text).is_ok_and(|email| self.had(PersonIdentity::Email(email.key()), at))
    }

    fn is_phone(&self, text: &str, at: PublishedAt) -> bool {
        let phone = Phone::parse(text).ok().flatten();
        phone.is_some_and(|phone| self.had(PersonIdentity::Phone(phone.digits()), at))
    }

    fn is_external_id(&self, text: &str, at: PublishedAt) -> bool {
        self.had(PersonIdentity::ExternalId(text.trim()), at)
    }

    /// Whether the person had the identity when a message was published.
    fn had(&self, identity: PersonIdentity<&str>, at: PublishedAt) -> bool {
        let until = self.hashes.get(&self.key.hash(self.tenant, identity));
        until.is_some_and(|until| at.is_none_or(|at| at <= *until))
    }

    /// For each dead letter of a window whether it names the person.
    fn matching(&self, window: &Window<'_, '_>) -> Vec<bool> {
        let letters = window.letters().iter().zip(window.bodies());
        letters.map(|(letter, body)| self.matches(letter.meta.as_deref(), body)).collect()
    }
}

/// The tenant's advisor actions that wait and name the person: their numbers, and their bodies.
pub(super) async fn waiting_actions(
    on: &impl GenericClient, matcher: &MessageMatcher,
) -> Result<(Vec<i64>, Vec<Vec<u8>>)> {
    let (mut found, mut after) = (Vec::new(), 0);
    loop {
        let page = people::advisor_actions(on, matcher.tenant, after).await?;
        let Some((last, _)) = page.last() else { return Ok(found.into_iter().unzip()) };
        after = *last;
        let matching = page.into_iter().filter(|(_, action)| matcher.matches(action.meta.as_deref(), &action.body));
        found.extend(matching.map(|(number, action)| (number, action.body)));
    }
}

pub(super) async fn find(
    broker: &OperatorConnection, matcher: &MessageMatcher,
) -> Result<Vec<StoredDeadLetter>, OperatorConnectionError> {
    let mut found = Vec::new();
    for queue in non_empty(broker).await? {
        let mut scan = broker.scan_dead_letters(queue, None).await?;
        while let Some(window) = scan.next_window().await? {
            let matching = matcher.matching(&window);
            let bodies = window.bodies().zip(matching).filter_map(|(body, is_match)| is_match.then_some(body));
            let stored = bodies.map(|body| String::from_utf8_lossy(body).into_owned());
            found.extend(stored.map(|body| StoredDeadLetter { queue: queue.as_str(), body }));
            window.settle(|_| DeadLetterAction::Keep).await?;
        }
        scan.finish().await?;
    }
    Ok(found)
}

/// Deletes the dead letters that name the person, and returns their number. A batch that names other people as well is deleted as a
/// whole.
pub(super) async fn remove(
    broker: &OperatorConnection, matcher: &MessageMatcher, observer: &mut impl Observer,
) -> Result<u64, OperatorConnectionError> {
    let mut removed = 0;
    for queue in non_empty(broker).await? {
        let mut scan = broker.scan_dead_letters(queue, None).await?;
        observer.begin(ProgressStep::CheckDeadLetters, scan.remaining().into());
        while let Some(window) = scan.next_window().await? {
            let mut matching = matcher.matching(&window).into_iter();
            let action = |_: &DeadLetter| match matching.next() {
                Some(true) => DeadLetterAction::Remove,
                Some(false) | None => DeadLetterAction::Keep,
            };
            window.settle(action).await?;
            observer.reached(scan.counts().total().into());
        }
        let counts = scan.finish().await?;
        observer.end(counts.total().into());
        removed += u64::from(counts.removed);
    }
    Ok(removed)
}

async fn non_empty(broker: &OperatorConnection) -> Result<Vec<Queue>, OperatorConnectionError> {
    let mut queues = Vec::new();
    // The notices of webhooks have ids of deliveries, and no personal data.
    for queue in Queue::CONSUMED {
        let depth = broker.depth(&broker.dead_queue_name(queue)).await?;
        if depth.is_some_and(|depth| depth.ready > 0) {
            queues.push(queue);
        }
    }
    Ok(queues)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const TENANT: TenantId = TenantId(Uuid::from_u128(1));
    const LEAD: Uuid = Uuid::from_u128(0x0190_c9d4_7a3b_7c11_9d1e_3f5a_8b2c_4d6e);

    fn matcher() -> MessageMatcher {
        let key = ErasureKey::parse(&ErasureKey::text_of([7; 32])).unwrap();
        let hashes = [
            (PersonIdentity::Email("ana@example.com"), "2026-05-01T10:00:00Z"),
            (PersonIdentity::Email("lost@example.com"), "2026-04-01T10:00:00Z"),
            (PersonIdentity::Phone("4930123"), "2026-05-01T10:00:00Z"),
            (PersonIdentity::ExternalId("X 1"), "2026-05-01T10:00:00Z"),
            (PersonIdentity::Email("m\u{fc}ller@example.com"), "2026-05-01T10:00:00Z"),
            (PersonIdentity::Email("a/b@example.com"), "2026-05-01T10:00:00Z"),
        ];
        let hashes = hashes.map(|(identity, until)| (key.hash(TENANT, identity), until.parse().unwrap()));
        MessageMatcher::new((TENANT, "acme"), key, hashes.into(), &[LEAD])
    }

    fn matches(meta: &Value, body: &str) -> bool {
        matcher().matches(Some(&meta.to_string()), body.as_bytes())
    }

    #[test]
    fn recognizes_identities_and_ids_in_messages() {
        let own = json!({"caller": {"tenantId": TENANT}, "publishedAt": "2026-05-01T09:00:00Z"});
        for body in [
            r#"{"events": [{"tenant": "ACME ", "actor": {"email": " Ana@Example.com"}}]}"#,
            r#"{"contact": {"phone": "+49 (30) 123"}}"#,
            r#"{"externalId": " X 1 "}"#,
            r#"{"email": "", "externalId": "\u200b", "phone": "+49 30 123"}"#,
            r#"{"email": " ", "externalId": "X 1"}"#,
            r#"{"events": [{"actor": {"tenant": "beta", "email": "ana@example.com"}}]}"#,
            r#"{"email": "ana\u0040example.com"}"#,
            &format!(r#"{{"payload": {{"leadId": "{LEAD}"}}}}"#),
            r#"{"events": [{"actor": {"email": "ana@example.com", broken"#,
            r#"broken "externalId": "X 1""#,
            "mail of <ana@example.com>, unreadable",
            r#"broken "email": "ana\u0040example.com"#,
            r#"broken "email": "M\u00FCller@example.com""#,
            r#"broken "email": "a\/b@example.com""#,
            r#"broken "externalId": "\u0058\u00201""#,
            r#"broken "{\"email\":\"ana@example.com\"}""#,
        ] {
            assert!(matches(&own, body), "{body}");
            assert!(matcher().matches(None, body.as_bytes()), "without metadata: {body}");
        }
        for body in [
            r#"{"events": [{"actor": {"email": "bo@example.com", "name": "ana@example.com"}}]}"#,
            r#"{"phone": "123"}"#,
            r#"{"email": "bo@example.com", "phone": "+49 30 123"}"#,
            r#"{"email": "bo@example.com", "externalId": "X 1"}"#,
            r#"{"externalId": "X 2", "phone": "+49 30 123"}"#,
            r#"{"contact": {"email": "bo@example.com"}, "externalId": "X 1"}"#,
            "broken X 1",
            r#"{"email": "joana@example.com"}"#,
            "broken \"email\": \"joana@example.com\"",
            r#"broken "email": "jo\u0061na@example.com""#,
            r#"{"tenant": "beta", "email": "ana@example.com"}"#,
            r#"{"events": [{"tenant": "beta", "email": "ana@example.com"}]}"#,
            "nothing",
            "",
        ] {
            assert!(!matches(&own, body), "{body}");
        }
    }

    #[test]
    fn a_message_of_another_tenant_or_of_a_new_client_is_another_persons() {
        let body = r#"{"email": "ana@example.com"}"#;
        let meta =
            |tenant: u128, published: &str| json!({"tenantId": Uuid::from_u128(tenant), "publishedAt": published});
        assert!(matches(&meta(1, "2026-05-01T10:00:00Z"), body));
        assert!(!matches(&meta(2, "2026-05-01T10:00:00Z"), body));
        assert!(!matches(&meta(1, "2026-05-01T10:00:00.001Z"), body));
        assert!(matches(&meta(1, "2026-05-01T11:00:00Z"), &LEAD.to_string()), "ids are those of the person");
        let lost = r#"{"email": "lost@example.com"}"#;
        assert!(matches(&meta(1, "2026-04-01T10:00:00Z"), lost));
        assert!(!matches(&meta(1, "2026-04-01T10:00:00.001Z"), lost), "another client has it since");
    }
}
