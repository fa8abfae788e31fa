//! The three headers that every request carries (specification: Authentication).

use super::failure::{AuthFailure, FailedCheck};
use common::model::KeyPrefix;
use common::signature::Signature;
use hyper::HeaderMap;

/// Header names are compared case-insensitively.
const KEY: &str = "X-Connect-Key";
const TENANT: &str = "X-Connect-Tenant";
pub(crate) const SIGNATURE: &str = "X-Connect-Signature";

/// The credentials of a request: well formed, not verified yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Credentials<'a> {
    /// The prefix of the API key.
    pub(super) key: KeyPrefix,
    /// The slug of the tenant, trimmed, its case as sent.
    pub(super) tenant: &'a str,
    pub(super) signature: Signature,
}

impl<'a> Credentials<'a> {
    /// Parses the three headers: each exactly once, in ASCII, not empty, of the right form (D1, D2).
    pub(super) fn parse(headers: &'a HeaderMap) -> Result<Self, Box<FailedCheck>> {
        let named = || only(headers, KEY).ok().and_then(KeyPrefix::parse);
        let fault = |header| {
            move |failure| {
                Box::new(FailedCheck { failure, key: named(), owner: None, header: Some(header), signature: None })
            }
        };
        let malformed = |header| fault(header)(AuthFailure::MalformedHeader);
        let key = only(headers, KEY).map_err(fault(KEY))?;
        let tenant = only(headers, TENANT).map_err(fault(TENANT))?.trim();
        let signature = only(headers, SIGNATURE).map_err(fault(SIGNATURE))?;
        if tenant.is_empty() {
            return Err(malformed(TENANT));
        }
        Ok(Self {
            key: KeyPrefix::parse(key).ok_or_else(|| malformed(KEY))?,
            tenant,
            signature: Signature::parse(signature).map_err(|_| malformed(SIGNATURE))?,
        })
    }
}

/// The header's value, if there is exactly one.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, AuthFailure> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().ok_or(AuthFailure::MissingHeader)?;
    if values.next().is_some() {
        return Err(AuthFailure::RepeatedHeader);
    }
    value.to_str().map_err(|_| AuthFailure::MalformedHeader)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HeaderName, HeaderValue};

    const SIGNED: &str = "t=1,v1=00000000000000000000000000000000000000000000000000000000000000aa";

    fn read(pairs: &[(&str, &[u8])]) -> Result<(String, String), AuthFailure> {
        let headers: HeaderMap = pairs
            .iter()
            .map(|(name, value)| (HeaderName::try_from(*name).unwrap(), HeaderValue::from_bytes(value).unwrap()))
            .collect();
        let read = Credentials::parse(&headers).map_err(|fault| fault.failure)?;
        Ok((read.key.to_string(), read.tenant.to_owned()))
    }

    fn with(key: &[u8], tenant: &[u8], signature: &[u8]) -> Result<(String, String), AuthFailure> {
        read(&[("X-Connect-Key", key), ("X-Connect-Tenant", tenant), ("X-Connect-Signature", signature)])
    }

    #[test]
    fn three_well_formed_headers_are_read_and_the_tenant_is_trimmed() {
        assert_eq!(with(b"ck_1", b" \tAcme ", SIGNED.as_bytes()), Ok(("ck_1".to_owned(), "Acme".to_owned())));
    }

    #[test]
    fn one_that_is_missing_empty_or_not_ascii_is_refused() {
        let signature = SIGNED.as_bytes();
        assert_eq!(read(&[("X-Connect-Key", b"k"), ("X-Connect-Tenant", b"t")]), Err(AuthFailure::MissingHeader));
        assert_eq!(read(&[]), Err(AuthFailure::MissingHeader));
        for (key, tenant, signature) in [
            (b"".as_slice(), b"t".as_slice(), signature),
            (b"k", b"  ", signature),
            (b"k", b"t", b""),
            (b"k k", b"t", signature),
            ("ké".as_bytes(), b"t", signature),
            (b"k", "té".as_bytes(), signature),
            (b"k", b"\xff", signature),
            (b"k", b"t", b"t=1,v1=zz"),
        ] {
            assert_eq!(with(key, tenant, signature), Err(AuthFailure::MalformedHeader));
        }
    }

    #[test]
    fn a_fault_names_the_header_and_the_key_if_that_is_well_formed() {
        let fault = |pairs: &[(&str, &str)]| {
            let pair = |(name, value): &(&str, &str)| {
                (HeaderName::try_from(*name).unwrap(), HeaderValue::from_str(value).unwrap())
            };
            let headers: HeaderMap = pairs.iter().map(pair).collect();
            let fault = Credentials::parse(&headers).unwrap_err();
            (fault.header.unwrap(), fault.key.map(String::from))
        };
        let named = Some("ck_1".to_owned());
        assert_eq!(fault(&[("X-Connect-Key", "ck_1")]), (TENANT, named.clone()));
        assert_eq!(fault(&[("X-Connect-Key", "ck_1"), ("X-Connect-Tenant", "t")]), (SIGNATURE, named));
        assert_eq!(fault(&[("X-Connect-Tenant", "t")]), (KEY, None));
        let twice = [("X-Connect-Key", "ck_1"), ("X-Connect-Key", "ck_2"), ("X-Connect-Tenant", "t")];
        assert_eq!(fault(&twice), (KEY, None));
    }

    #[test]
    fn one_that_is_repeated_is_refused_even_with_the_same_value() {
        let pairs = [
            ("X-Connect-Key", b"k".as_slice()),
            ("X-Connect-Tenant", b"t".as_slice()),
            ("X-Connect-Signature", SIGNED.as_bytes()),
        ];
        for again in pairs {
            let mut repeated = pairs.to_vec();
            repeated.push(again);
            assert_eq!(read(&repeated), Err(AuthFailure::RepeatedHeader));
        }
    }
}
