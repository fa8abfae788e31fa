//! The metadata of a bundle, a batch, a records write and a delivery, which travels beside the body.

use super::ensure;
use super::random::Random;
use common::bundle::{self, BundleMeta, BundledRequest};
use common::caller::Caller;
use common::message::{ActionMeta, BatchMeta, DeliveryMeta};
use common::model::{ClientId, KeyPrefix, LeadId, Scopes, TenantId};
use common::write::{IfMatch, WriteMeta, WriteTarget};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use uuid::Uuid;

/// A bundle's metadata survives a round trip, and splits its body into its parts; the parts of a damaged header or body are together
/// exactly the body.
pub(super) fn check(random: &mut Random) -> Result<(), String> {
    let texts: Vec<(String, Vec<u8>)> =
        (0..=random.below(4)).map(|_| (format!("{{\"n\":{}}}", random.next()), random.bytes(60))).collect();
    let requests: Vec<BundledRequest<'_>> =
        texts.iter().map(|(meta, body)| BundledRequest { id: id(random), weight: 1, meta, body }).collect();
    let (meta, mut body) = BundleMeta::join(caller(random), chrono::DateTime::UNIX_EPOCH, &requests);
    check_survives_round_trip(random, &meta)?;
    let whole: Vec<(String, &[u8])> = texts.iter().map(|(meta, body)| (meta.clone(), body.as_slice())).collect();
    let split = meta.split(&body);
    ensure(split.as_ref() == Some(&whole), || format!("{body:?} is split into {split:?}"))?;

    let mut damaged = meta.to_header().into_bytes();
    if random.once_in(2) {
        random.damage(&mut damaged);
    } else {
        random.damage(&mut body);
    }
    let Ok(meta) = serde_json::from_slice::<BundleMeta>(&damaged) else { return Ok(()) };
    if let Some(parts) = meta.split(&body) {
        ensure(parts.len() == meta.parts.len(), || "another number of parts".to_owned())?;
        let prefix = meta.prefix.len();
        let joined =
            parts.iter().flat_map(|(meta, body)| [&meta.as_bytes()[prefix..], body]).collect::<Vec<_>>().concat();
        ensure(joined == body, || format!("{parts:?} of {body:?}"))?;
    }
    let mut reply = bundle::join_replies(&vec![Some(b"{}".as_slice()); meta.parts.len()]);
    random.damage(&mut reply);
    if let Some(replies) = bundle::split_reply(&reply, meta.parts.len()) {
        ensure(replies.len() == meta.parts.len(), || "another number of replies".to_owned())?;
    }
    Ok(())
}

fn id(random: &mut Random) -> Uuid {
    Uuid::from_u64_pair(random.next(), random.next())
}

fn caller(random: &mut Random) -> Caller {
    Caller {
        tenant_id: TenantId(id(random)),
        tenant: "acme".to_owned(),
        key: KeyPrefix::parse("ck_test").expect("a prefix"),
        scopes: Scopes::default(),
        origin: random.once_in(2).then(|| "website".to_owned()),
    }
}

/// Metadata of batches, writes, deliveries and actions survives a round trip. Metadata parsed from a damaged header does as well, so
/// that all programs interpret it in the same way.
pub(super) fn check_others(random: &mut Random) -> Result<(), String> {
    let batch = BatchMeta {
        request_id: id(random),
        caller: caller(random),
        published_at: chrono::DateTime::UNIX_EPOCH,
        events: u16::try_from(random.below(100)).unwrap_or_default(),
        dry_run: random.once_in(2),
        traceparent: None,
    };
    check_survives_round_trip(random, &batch)?;
    let write = write_meta(random);
    check_survives_round_trip(random, &write)?;
    let delivery = delivery_meta(random);
    check_survives_round_trip(random, &delivery)?;
    let action = ActionMeta {
        published_at: chrono::DateTime::UNIX_EPOCH,
        traceparent: random.once_in(2).then(|| format!("00-{}", random.next())),
    };
    check_survives_round_trip(random, &action)
}

fn check_survives_round_trip<M: Serialize + DeserializeOwned + PartialEq + Debug>(
    random: &mut Random, meta: &M,
) -> Result<(), String> {
    let read_again = |meta: &M| {
        let header = serde_json::to_string(meta).map_err(|error| error.to_string())?;
        let read: M = serde_json::from_str(&header).map_err(|error| format!("{header}: {error}"))?;
        ensure(read == *meta, || format!("{header} is read as {read:?}"))?;
        Ok::<_, String>(header)
    };
    let mut damaged = read_again(meta)?.into_bytes();
    random.damage(&mut damaged);
    serde_json::from_slice::<M>(&damaged).map_or(Ok(()), |read| read_again(&read).map(drop))
}

fn write_meta(random: &mut Random) -> WriteMeta {
    let targets = [
        WriteTarget::NewClient,
        WriteTarget::Client(ClientId(id(random))),
        WriteTarget::NewLead,
        WriteTarget::Lead(LeadId(id(random))),
        WriteTarget::Trip(LeadId(id(random))),
    ];
    let conditions = [None, Some(IfMatch::Any), Some(IfMatch::OneOf(vec!["\"a\"".to_owned(), String::new()]))];
    WriteMeta {
        request_id: id(random),
        caller: caller(random),
        published_at: chrono::DateTime::UNIX_EPOCH,
        deadline: chrono::DateTime::UNIX_EPOCH,
        target: *random.one_of(&targets),
        path: "/leads?a=\u{fc}".to_owned(),
        idempotency_key: random.once_in(2).then(|| format!("key-{}", random.next())),
        if_match: random.one_of(&conditions).clone(),
        dry_run: random.once_in(2),
        traceparent: random.once_in(2).then(|| format!("00-{}", random.next())),
    }
}

fn delivery_meta(random: &mut Random) -> DeliveryMeta {
    DeliveryMeta {
        tenant_id: TenantId(id(random)),
        delivery_id: id(random),
        subscription_id: id(random),
        event_id: id(random),
        event_type: "lead.created".to_owned(),
        attempt: 1 + i16::try_from(random.below(100)).unwrap_or_default(),
        published_at: chrono::DateTime::UNIX_EPOCH,
        traceparent: random.once_in(2).then(|| format!("00-{}", random.next())),
        request_id: random.once_in(2).then(|| id(random)),
        reason: "status 500".to_owned(),
    }
}
