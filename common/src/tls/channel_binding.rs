//! Channel binding of the type `tls-server-end-point` (RFC 5929, 4.1): Postgres proves with it that it is the end of the TLS
//! connection over which a password is checked.

use sha2::{Digest as _, Sha256, Sha384, Sha512};

/// The contents of the object identifiers of signature algorithms, with their hash; MD5 and SHA-1 are replaced by SHA-256.
const SHA256: [&[u8]; 5] = [
    b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x04", // md5WithRSAEncryption
    b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x05", // sha1WithRSAEncryption
    b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0b", // sha256WithRSAEncryption
    b"\x2a\x86\x48\xce\x3d\x04\x01",         // ecdsa-with-SHA1
    b"\x2a\x86\x48\xce\x3d\x04\x03\x02",     // ecdsa-with-SHA256
];
const SHA384: [&[u8]; 2] = [b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0c", b"\x2a\x86\x48\xce\x3d\x04\x03\x03"];
const SHA512: [&[u8]; 2] = [b"\x2a\x86\x48\x86\xf7\x0d\x01\x01\x0d", b"\x2a\x86\x48\xce\x3d\x04\x03\x04"];

/// The hash of a server's certificate (DER) by the hash function of its signature. `None` where that is not defined, as with
/// Ed25519.
pub(crate) fn server_end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    let (signed_and_signature, _) = content(certificate)?;
    let (_, signature) = content(signed_and_signature)?;
    let (algorithm, _) = content(signature)?;
    let (identifier, _) = content(algorithm)?;
    if SHA256.contains(&identifier) {
        Some(Sha256::digest(certificate).to_vec())
    } else if SHA384.contains(&identifier) {
        Some(Sha384::digest(certificate).to_vec())
    } else if SHA512.contains(&identifier) {
        Some(Sha512::digest(certificate).to_vec())
    } else {
        None
    }
}

/// The content of the first element of DER, whatever its type, and what follows it.
fn content(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (first, rest) = der.get(1..)?.split_first()?;
    let (length, rest) = match first.checked_sub(0x80) {
        None => (usize::from(*first), rest),
        Some(bytes) => {
            let (length, rest) = rest.split_at_checked(usize::from(bytes))?;
            (length.iter().try_fold(0_usize, |sum, byte| Some(sum.checked_mul(256)? + usize::from(*byte)))?, rest)
        }
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{
        CertificateParams, KeyPair, PKCS_ECDSA_P256_SHA256, PKCS_ECDSA_P384_SHA384, PKCS_ED25519, SignatureAlgorithm,
    };

    fn certificate(algorithm: &'static SignatureAlgorithm) -> Vec<u8> {
        let key = KeyPair::generate_for(algorithm).unwrap();
        CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap().der().to_vec()
    }

    #[test]
    fn the_hash_is_that_of_the_certificates_signature() {
        let short = certificate(&PKCS_ECDSA_P256_SHA256);
        assert_eq!(server_end_point(&short), Some(Sha256::digest(&short).to_vec()));
        let long = certificate(&PKCS_ECDSA_P384_SHA384);
        assert_eq!(server_end_point(&long), Some(Sha384::digest(&long).to_vec()));
        assert_eq!(server_end_point(&certificate(&PKCS_ED25519)), None);
        for cut in 0..short.len() {
            assert_eq!(server_end_point(&short[..cut]), None, "{cut}");
        }
    }
}
