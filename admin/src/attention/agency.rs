//! What an agency should look at, each with the page that tells more.

use super::{
    Attention, LATE, RECENT, after_event_error, counted, failed_events, failed_responses, is_over, minutes, recent,
    refusal_reasons, refused_requests, response_codes,
};
use crate::activity::{ActivityMinute, last_hour};
use crate::deliveries::{self, DeliveryQuery};
use crate::keys::{self, Key, KeyFilter};
use crate::store::attention::{FailureCause, RefusalCause};
use crate::subscriptions::{self, Subscription, SubscriptionState};
use crate::tenants::{self, Usage};
use crate::{Result, store};
use chrono::{DateTime, TimeDelta, Utc};
use common::model::{DeliveryState, TenantId};
use std::collections::BTreeSet;
use tokio_postgres::Client;
use uuid::Uuid;

/// Failures in the latest minutes before a receiver needs attention, or failures or dead letters before an agency is told by mail.
const FAILURES: i64 = 5;
/// Dead-lettered deliveries that are read to tell whether there are any.
const DEAD_READ: u32 = 100;
/// How the cause of a key's refused requests begins.
const REFUSED_KEY: &str = "refused:";
/// Keys with refused requests that are shown.
const KEYS_MAX: usize = 10;
/// How long before its end a key is told.
const KEY_ENDS: TimeDelta = TimeDelta::days(7);
/// How long before its end an old secret is told, if it was used so lately.
const SECRET_ENDS: TimeDelta = TimeDelta::hours(12);
const USED_LATELY: TimeDelta = TimeDelta::hours(1);

/// What the start page of an agency shows, beside what needs attention.
#[derive(Debug)]
pub struct AgencyOverview {
    /// Whose overview it is.
    pub tenant: TenantId,
    /// The minutes of the last hour, the current one last.
    pub hour: Vec<ActivityMinute>,
    /// The keys that are not revoked.
    pub keys: Vec<Key>,
    /// The subscriptions that are not removed.
    pub subscriptions: Vec<Subscription>,
    /// Whether new enquiries can be assigned to somebody.
    pub has_active_member: bool,
    /// The records writes of the current month.
    pub usage: Usage,
    /// Dead-lettered deliveries, counted up to a hundred.
    pub dead: usize,
    /// Whether there are more of them.
    pub has_more_dead: bool,
    /// When the webhook that waits the longest was due, or the next one will be.
    pub due: Option<DateTime<Utc>>,
}

impl AgencyOverview {
    /// Loads the overview of the agency with this id and slug.
    pub async fn load(client: &Client, tenant: TenantId, slug: &str) -> Result<Self> {
        let active = KeyFilter { is_revoked: Some(false), ..KeyFilter::default() };
        let dead = DeliveryQuery { state: Some(DeliveryState::DeadLettered), ..DeliveryQuery::default() };
        let dead = deliveries::page(client, tenant, &dead, DEAD_READ).await?;
        Ok(Self {
            tenant,
            hour: last_hour(client, Some(tenant)).await?,
            keys: keys::list(client, slug, active, u32::MAX).await?.items,
            subscriptions: subscriptions::list(client, slug, None, u32::MAX).await?.items,
            has_active_member: store::tenants::has_active_member(client, tenant).await?,
            usage: tenants::usage_of_this_month(client, slug).await?,
            dead: dead.items.len(),
            has_more_dead: dead.next.is_some(),
            due: store::activity::oldest_of_tenant(client, tenant).await?,
        })
    }

    /// Subscriptions that are paused.
    pub fn paused(&self) -> usize {
        self.subscriptions.iter().filter(|one| one.state == SubscriptionState::Paused).count()
    }

    pub(super) fn lines(
        &self, failures: &[FailureCause], refusals: &[RefusalCause], now: DateTime<Utc>,
    ) -> Vec<Attention> {
        let mut found = Vec::new();
        self.check_failures(failures, &mut found);
        self.check_refusals(refusals, &mut found);
        if self.dead > 0 {
            let dead = format!("{}{}", self.dead, if self.has_more_dead { " or more" } else { "" });
            let text = counted(dead, "delivery failed for good.", "deliveries failed for good.");
            let next = "Correct the receiver, then replay what failed for good.";
            let is_mailed = self.dead as i64 >= FAILURES;
            found.push(Attention::of_agency("dead", "/deliveries?state=dead", text, next, is_mailed));
        }
        let has_active = self.subscriptions.iter().any(|one| one.state == SubscriptionState::Active);
        if let Some(at) = self.due.filter(|at| has_active && now - *at > LATE) {
            let text = format!("Webhooks are late: the oldest has waited for {} to be sent.", minutes(now - at));
            let next =
                "Nothing is lost. Look for a receiver that responds slowly; if there is none, tell your operator.";
            found.push(Attention::of_agency("late", "/deliveries?state=pending", text, next, false));
        }
        let paused = self.paused();
        if paused > 0 {
            let text = counted(paused, "subscription is paused.", "subscriptions are paused.");
            let next = "Deliveries wait: resume what is paused when its receiver works.";
            found.push(Attention::of_agency("paused", "/webhooks", text, next, false));
        }
        if self.usage.quota.is_some_and(|quota| self.usage.writes >= quota) {
            let text = "The monthly quota is used up: records writes get 429 until the next month.".to_owned();
            found.push(Attention::of_agency("quota", "/usage", text, "The operator can raise it.", true));
        }
        if self.keys.is_empty() {
            let text = "There is no active key: nobody can send events for the agency.".to_owned();
            found.push(Attention::of_agency("no-key", "/keys", text, "Create one.", false));
        }
        if !self.has_active_member {
            let text = "There is no active member: new enquiries get no advisor.".to_owned();
            found.push(Attention::of_agency("no-member", "/members", text, "Add or activate one.", false));
        }
        self.check_ends(now, &mut found);
        found
    }

    /// Receivers, events and responses.
    fn check_failures(&self, failures: &[FailureCause], found: &mut Vec<Attention>) {
        for failure in failures {
            let FailureCause { cause, failed, succeeded, failed_in_a_row, last_error } = failure;
            match cause.split_once(':') {
                Some(("receiver", id)) if *failed.max(failed_in_a_row) >= FAILURES => {
                    let id = Uuid::try_parse(id).unwrap_or_default();
                    let is_active = |one: &&Subscription| one.id == id && one.state == SubscriptionState::Active;
                    let Some(url) = self.subscriptions.iter().find(is_active).map(|one| &one.url) else {
                        continue;
                    };
                    let last = last_error.as_ref().map_or_else(String::new, |why| format!(", the last failure: {why}"));
                    let all = counted(failed + succeeded, "attempt", "attempts");
                    let which = if *failed >= FAILURES {
                        format!("{failed} of {all} of the last {RECENT} minutes")
                    } else {
                        format!("all of its last {failed_in_a_row} attempts")
                    };
                    let text = format!("{url} fails: {which}{last}.");
                    let next = "Look at its responses and correct the receiver. Deliveries are retried by themselves; replay only those that failed for good.";
                    found.push(Attention::of_agency(cause, format!("/webhooks/{id}"), text, next, true));
                }
                Some(("event", error)) => {
                    let key = last_error.as_deref().and_then(|sent_by| sent_by.split(',').next());
                    let page = key.map_or_else(|| "/keys".to_owned(), |key| format!("/keys/{key}"));
                    let (text, next) = (failed_events(failure, &self.hour), after_event_error(error));
                    found.push(Attention::of_agency(cause, page, text, &next, *failed >= FAILURES));
                }
                _ => {}
            }
        }
        let codes = response_codes(failures);
        if !codes.is_empty() {
            let is_mailed = codes.values().sum::<i64>() >= FAILURES;
            let next = "Their senders must repeat them. If it goes on, tell the operator.";
            found.push(Attention::of_agency("responses", "/refusals", failed_responses(&codes), next, is_mailed));
        }
    }

    /// Requests that were refused, of each key that still is. Of a busy key not all refusals are recorded.
    fn check_refusals(&self, refusals: &[RefusalCause], found: &mut Vec<Attention>) {
        let recorded: i64 = refusals.iter().map(|one| one.requests).sum();
        let refused = recent(&self.hour, |minute| minute.refused).max(recorded);
        let accepted = recent(&self.hour, |minute| minute.accepted);
        let share = refused_requests(refused, accepted);
        if refusals.is_empty() && !is_over(&self.hour, |minute| minute.refused) {
            let next = after_refusal(401);
            found.push(Attention::of_agency("refused", "/refusals", share.clone(), next, refused >= FAILURES));
        }
        let at_least = if recorded < refused { "at least " } else { "" };
        // Then the numbers of the agency are those of the key.
        let is_only_key = self.keys.len() == 1 && refusals.iter().all(|one| one.key_prefix == self.keys[0].prefix);
        let of = format!(" of {} in the last {RECENT} minutes", refused + accepted);
        let (at_least, of) = if is_only_key { ("", of.as_str()) } else { (at_least, "") };
        let mut keys = BTreeSet::new();
        let most_frequent = refusals.iter().filter(|one| !one.is_over && keys.insert(&one.key_prefix));
        for (index, RefusalCause { key_prefix, status, .. }) in most_frequent.enumerate() {
            let all: Vec<&RefusalCause> = refusals.iter().filter(|one| one.key_prefix == *key_prefix).collect();
            let of_key: i64 = if is_only_key { refused } else { all.iter().map(|one| one.requests).sum() };
            let why = refusal_reasons(&all, of_key);
            let of_all = if index == 0 && !is_only_key { format!(" With all keys, {share}") } else { String::new() };
            let named = self.keys.iter().find(|key| key.prefix == *key_prefix);
            let key = named.map_or_else(|| key_prefix.clone(), |key| format!("{} ({key_prefix})", key.name));
            let text = format!("Requests with the key {key} are refused: {at_least}{of_key}{of}, {why}.{of_all}");
            let (cause, page) = (format!("{REFUSED_KEY}{key_prefix}"), format!("/refusals?key={key_prefix}"));
            let credentials = all.iter().map(|one| one.status).find(|status| matches!(status, 401 | 403));
            let next = after_refusal(credentials.unwrap_or(*status));
            found.push(Attention::of_agency(cause, page, text, next, of_key >= FAILURES));
        }
    }

    /// Keys, and old secrets that are still in use, that end soon.
    fn check_ends(&self, now: DateTime<Utc>, found: &mut Vec<Attention>) {
        let parsed = |text: &Option<String>| text.as_ref()?.parse::<DateTime<Utc>>().ok();
        let is_soon = |at: &Option<String>, most: TimeDelta| parsed(at).is_some_and(|at| at > now && at - now <= most);
        for Key { prefix, expires_at, secrets, .. } in &self.keys {
            let page = format!("/keys/{prefix}");
            if let Some(at) = expires_at.as_ref().filter(|_| is_soon(expires_at, KEY_ENDS)) {
                let text = format!("The key {prefix} expires at {at}.");
                let next = "Create another key for its user before.";
                found.push(Attention::of_agency(format!("expires:{prefix}"), &page, text, next, true));
            }
            for secret in secrets.iter().filter(|secret| !secret.current) {
                let is_used = parsed(&secret.last_used_at).is_some_and(|at| now - at <= USED_LATELY);
                let ends_soon = is_used && is_soon(&secret.valid_until, SECRET_ENDS);
                if let Some(at) = secret.valid_until.as_ref().filter(|_| ends_soon) {
                    let text = format!("The old secret of the key {prefix} ends at {at} and is still used.");
                    let next = "Its user must change to the new secret before.";
                    found.push(Attention::of_agency(format!("secret:{prefix}"), &page, text, next, true));
                }
            }
        }
    }
}

/// Removes refused keys after the first ones, which are refused most. Mails need all of them, to tell what has recovered.
pub fn shorten(found: &mut Vec<Attention>) {
    let mut keys = 0;
    found.retain(|one| {
        let is_key = one.cause.starts_with(REFUSED_KEY);
        keys += usize::from(is_key);
        !is_key || keys <= KEYS_MAX
    });
}

/// What to do about refused requests, by their status. Only the responses to wrong credentials do not say the reason.
const fn after_refusal(status: i32) -> &'static str {
    match status {
        401 | 403 => {
            "Tell the partner the reason, which responses with 401 and 403 do not say. \"Check the signature\" finds mistakes in it."
        }
        _ => "The responses say what is wrong; the page Refused requests has the latest.",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{RequestCounts, SecretUse};

    const NOW: &str = "2026-05-01T10:30:00Z";

    fn key() -> Key {
        let secret = |current, valid_until: Option<&str>| SecretUse {
            current,
            last_used_at: Some("2026-05-01T10:00:00Z".to_owned()),
            valid_until: valid_until.map(str::to_owned),
            safe_to_revoke: false,
        };
        Key {
            prefix: "ck_1".to_owned(),
            name: "Website".to_owned(),
            scopes: Vec::new(),
            origin: None,
            created_at: NOW.to_owned(),
            expires_at: Some("2026-05-09T10:30:00Z".to_owned()),
            revoked_at: None,
            last_used_at: None,
            safe_to_revoke: false,
            requests_last_day: RequestCounts { accepted: 0, refused: 0 },
            secrets: vec![secret(true, None), secret(false, Some("2026-05-02T10:30:00Z"))],
        }
    }

    fn healthy() -> AgencyOverview {
        let subscription = |id, state| Subscription {
            id: Uuid::from_u128(id),
            url: format!("https://{id}.example"),
            key: None,
            events: None,
            state,
            created_at: NOW.parse().unwrap(),
        };
        AgencyOverview {
            tenant: TenantId(Uuid::nil()),
            hour: vec![ActivityMinute { accepted: 5, applied: 9, failed: 1, ..ActivityMinute::default() }; 60],
            keys: vec![key()],
            subscriptions: vec![
                subscription(1, SubscriptionState::Active),
                subscription(2, SubscriptionState::Removed),
            ],
            has_active_member: true,
            usage: Usage { month: "2026-05".to_owned(), writes: 1, quota: Some(2) },
            dead: 0,
            has_more_dead: false,
            due: None,
        }
    }

    fn failed(cause: &str, failed: i64) -> FailureCause {
        FailureCause {
            cause: cause.to_owned(),
            failed,
            succeeded: 1,
            failed_in_a_row: 0,
            last_error: Some("status 500".to_owned()),
        }
    }

    /// The texts of what is found, and whether they are mailed.
    fn found(
        change: impl FnOnce(&mut AgencyOverview), failures: &[FailureCause], refusals: &[RefusalCause],
    ) -> Vec<(String, bool)> {
        let mut overview = healthy();
        change(&mut overview);
        let found = overview.lines(failures, refusals, NOW.parse().unwrap());
        found.into_iter().map(|one| (one.text, one.is_mailed)).collect()
    }

    #[test]
    fn nothing_needs_attention_while_everything_works() {
        let receiver = |id| format!("receiver:{}", Uuid::from_u128(id));
        assert_eq!(found(|_| {}, &[failed(&receiver(1), 4), failed(&receiver(2), 9)], &[]), []);
    }

    #[test]
    fn failures_are_told_with_their_size() {
        let receiver = format!("receiver:{}", Uuid::from_u128(1));
        let causes = [
            failed(&receiver, 5),
            FailureCause { failed_in_a_row: 6, ..failed(&receiver, 1) },
            FailureCause { last_error: Some("ck_1, request r-1".to_owned()), ..failed("event:x", 2) },
            failed("response:overloaded", 4),
            failed("response:b", 1),
        ];
        let expected = [
            ("https://1.example fails: 5 of 6 attempts of the last 10 minutes, the last failure: status 500.", true),
            ("https://1.example fails: all of its last 6 attempts, the last failure: status 500.", true),
            ("2 of 100 events failed in the last 10 minutes with x. The latest: key ck_1, request r-1.", false),
            ("5 requests got 503 in the last 10 minutes: b (1), overloaded (4).", true),
        ];
        assert_eq!(found(|_| {}, &causes, &[]), expected.map(|(text, is_mailed)| (text.to_owned(), is_mailed)));
    }

    #[test]
    fn refusals_are_told_by_key_with_the_most_frequent_reason() {
        let cause = |key: &str, reason: &str, requests| RefusalCause {
            key_prefix: key.to_owned(),
            reason: reason.to_owned(),
            status: if reason == "invalid_request" { 400 } else { 401 },
            detail: (reason == "stale").then(|| "t is old".to_owned()),
            requests,
            is_over: false,
        };
        let refusals = [cause("ck_1", "stale", 5), cause("ck_1", "mismatch", 2), cause("ck_2", "invalid_request", 1)];
        let lines = healthy().lines(&[], &refusals, NOW.parse().unwrap());
        assert!(lines[0].next.contains("Check the signature") && lines[1].next.contains("The responses say"));
        assert_eq!(lines[1].place, super::super::Place::Page("/refusals?key=ck_2".to_owned()));
        let told = found(|overview| overview.hour[55].refused = 9, &[], &refusals);
        let share = "With all keys, 9 of 59 requests were refused in the last 10 minutes.";
        let expected = [
            (
                format!(
                    "Requests with the key Website (ck_1) are refused: at least 7, mostly for the reason stale (the latest: t is old). {share}"
                ),
                true,
            ),
            ("Requests with the key ck_2 are refused: at least 1, for the reason invalid_request.".to_owned(), false),
        ];
        assert_eq!(told, expected);
        let told = found(|overview| overview.hour[55].refused = 9, &[], &refusals[..2]);
        assert!(told[0].0.contains(": 9 of 59 in the last 10 minutes, mostly") && !told[0].0.contains("With all keys"));
        let told = found(|overview| overview.hour[57].refused = 1, &[], &[]);
        assert_eq!(told[0].0, "1 of 51 requests was refused in the last 10 minutes.");
        assert_eq!(found(|overview| overview.hour[56].refused = 9, &[], &[]), []);
        let over = RefusalCause { is_over: true, ..cause("ck_1", "stale", 9) };
        assert_eq!(found(|_| {}, &[], std::slice::from_ref(&over)), []);
        let told = found(|_| {}, &[], &[over, cause("ck_1", "mismatch", 2)]);
        assert!(told[0].0.contains("refused: 11 of 61 in the last 10 minutes, lately for mismatch (2)."), "{told:?}");
        let equal = [cause("ck_1", "mismatch", 1), cause("ck_1", "scope", 1), cause("ck_2", "stale", 1)];
        let told = found(|_| {}, &[], &equal);
        assert!(told[0].0.contains("refused: 2, lately for mismatch (1), scope (1). With all keys, 3 "), "{told:?}");
        let many: Vec<_> = (0..=KEYS_MAX).map(|number| cause(&format!("ck_{number}"), "stale", 1)).collect();
        let mut lines = healthy().lines(&[], &many, NOW.parse().unwrap());
        assert_eq!(lines.len(), KEYS_MAX + 1);
        shorten(&mut lines);
        assert_eq!(lines.len(), KEYS_MAX);
    }

    #[test]
    fn what_ends_soon_and_what_stands_still_is_told() {
        let only = |change: fn(&mut AgencyOverview)| found(change, &[], &[])[0].0.clone();
        let soon = || Some("2026-05-01T20:00:00Z".to_owned());
        assert!(only(|one| one.keys[0].expires_at = Some("2026-05-08T10:00:00Z".to_owned())).contains("ck_1 expires"));
        let told = found(|one| one.keys[0].secrets[1].valid_until = soon(), &[], &[]);
        assert!(told[0].0.contains("old secret of the key ck_1"), "{told:?}");
        let unused = |one: &mut AgencyOverview| {
            one.keys[0].secrets[1].valid_until = soon();
            one.keys[0].secrets[1].last_used_at = None;
        };
        assert_eq!(found(unused, &[], &[]), []);
        assert!(only(|one| one.keys.clear()).contains("no active key"));
        assert!(only(|one| one.has_active_member = false).contains("no active member"));
        assert!(only(|one| one.usage.writes = 2).contains("quota is used up"));
        assert!(only(|one| one.dead = 1).contains("1 delivery failed for good"));
        assert!(
            only(|one| one.subscriptions[0].state = SubscriptionState::Paused).contains("1 subscription is paused")
        );
    }
}
