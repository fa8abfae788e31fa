//! The three headers that every request carries (specification: Authentication).

use super::failure::Failure;
use common::model::KeyPrefix;
use common::signature::Signature;
use hyper::HeaderMap;

const KEY: &str = "x-connect-key";
const TENANT: &str = "x-connect-tenant";
const SIGNATURE: &str = "x-connect-signature";

/// What a caller says of itself. Well formed, and not yet believed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials<'a> {
    /// The key it names.
    pub key: KeyPrefix,
    /// The agency it names, trimmed, in whatever case.
    pub tenant: &'a str,
    /// The signature.
    pub signature: Signature,
}

impl<'a> Credentials<'a> {
    /// Reads the headers: each exactly once, in ASCII, not empty, of the right form (D1, D2).
    pub fn read(headers: &'a HeaderMap) -> Result<Self, Failure> {
        let key = only(headers, KEY)?;
        let tenant = only(headers, TENANT)?.trim();
        let signature = only(headers, SIGNATURE)?;
        if tenant.is_empty() {
            return Err(Failure::Malformed);
        }
        Ok(Self {
            key: KeyPrefix::parse(key).ok_or(Failure::Malformed)?,
            tenant,
            signature: Signature::parse(signature).map_err(|_| Failure::Malformed)?,
        })
    }
}

/// The header's value, if there is exactly one.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Result<&'a str, Failure> {
    let mut values = headers.get_all(name).iter();
    let value = values.next().ok_or(Failure::Missing)?;
    if values.next().is_some() {
        return Err(Failure::Repeated);
    }
    value.to_str().map_err(|_| Failure::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::{HeaderName, HeaderValue};

    const SIGNED: &str = "t=1,v1=00000000000000000000000000000000000000000000000000000000000000aa";

    fn read(pairs: &[(&str, &[u8])]) -> Result<(String, String), Failure> {
        let headers: HeaderMap = pairs
            .iter()
            .map(|(name, value)| {
                (HeaderName::try_from(*name).unwrap(), HeaderValue::from_bytes(value).unwrap())
            })
            .collect();
        Credentials::read(&headers).map(|read| (read.key.to_string(), read.tenant.to_owned()))
    }

    fn with(key: &[u8], tenant: &[u8], signature: &[u8]) -> Result<(String, String), Failure> {
        read(&[("X-Connect-Key", key), ("X-Connect-Tenant", tenant), ("X-Connect-Signature", signature)])
    }

    #[test]
    fn three_well_formed_headers_are_read_and_the_tenant_is_trimmed() {
        assert_eq!(with(b"ck_1", b" \tAcme ", SIGNED.as_bytes()), Ok(("ck_1".to_owned(), "Acme".to_owned())));
    }

    #[test]
    fn one_that_is_missing_empty_or_not_ascii_is_refused() {
        let signature = SIGNED.as_bytes();
        assert_eq!(read(&[("X-Connect-Key", b"k"), ("X-Connect-Tenant", b"t")]), Err(Failure::Missing));
        assert_eq!(read(&[]), Err(Failure::Missing));
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
            assert_eq!(with(key, tenant, signature), Err(Failure::Malformed));
        }
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
            assert_eq!(read(&repeated), Err(Failure::Repeated));
        }
    }
}
