//! The metadata of a batch or bundle, which travels beside the body.

use super::random::Random;
use super::{batch, ensure};
use common::bundle;
use common::caller::Caller;
use common::message::{BatchMeta, BatchPart};
use common::model::{KeyPrefix, Scopes, TenantId};
use uuid::Uuid;

/// Metadata is read as it was written; a bundle splits into its parts; whatever a damaged header or body splits into
/// is the whole body and no byte more.
pub(super) fn check(random: &mut Random) -> Result<(), String> {
    let texts: Vec<Vec<u8>> = (0..=random.below(4)).map(|_| random.bytes(60)).collect();
    let texts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    let meta = meta(random, &texts);
    let header = meta.to_header();
    let read: BatchMeta = serde_json::from_str(&header).map_err(|error| error.to_string())?;
    ensure(read == meta, || format!("{header} is read as {read:?}"))?;
    let mut body = bundle::join(&texts);
    let split = bundle::split(&body, &meta);
    ensure(split.as_ref() == Some(&texts), || format!("{body:?} is split into {split:?}"))?;

    let mut damaged = header.into_bytes();
    if random.once_in(2) {
        random.damage(&mut damaged);
    } else {
        random.damage(&mut body);
    }
    let Ok(meta) = serde_json::from_slice::<BatchMeta>(&damaged) else { return Ok(()) };
    if let Some(parts) = bundle::split(&body, &meta) {
        ensure(parts.len() == meta.parts.len(), || "another number of parts".to_owned())?;
        ensure(meta.parts.is_empty() || bundle::join(&parts) == body, || format!("{parts:?} of {body:?}"))?;
        let events: u64 = meta.parts.iter().map(|part| u64::from(part.events)).sum();
        ensure(events == u64::from(meta.events), || format!("{events} events of {}", meta.events))?;
    }
    let mut reply = batch::body(random);
    random.damage(&mut reply);
    if let Some(replies) = bundle::split_reply(&reply, &meta.parts) {
        ensure(replies.len() == meta.parts.len(), || "another number of replies".to_owned())?;
    }
    Ok(())
}

fn meta(random: &mut Random, texts: &[&[u8]]) -> BatchMeta {
    let parts: Vec<BatchPart> = texts
        .iter()
        .map(|text| BatchPart {
            request_id: Uuid::from_u64_pair(random.next(), random.next()),
            traceparent: random.once_in(2).then(|| format!("00-{}", random.next())),
            events: 1 + u16::try_from(random.below(10)).unwrap_or_default(),
            bytes: text.len(),
        })
        .collect();
    BatchMeta {
        request_id: Uuid::from_u64_pair(random.next(), random.next()),
        caller: Caller {
            tenant_id: TenantId(Uuid::from_u64_pair(random.next(), random.next())),
            tenant: "acme".to_owned(),
            key: KeyPrefix::parse("ck_test").expect("a prefix"),
            scopes: Scopes::default(),
            origin: random.once_in(2).then(|| "website".to_owned()),
        },
        published_at: chrono::DateTime::UNIX_EPOCH,
        events: parts.iter().map(|part| part.events).sum(),
        traceparent: None,
        parts,
    }
}
