//! Certificates and keys: of files in PEM, those of the system's authorities, and one that is made for a run.
//!
//! A certificate that is made (RFC 5280) is signed by its own key, so nobody trusts it who was not given it: clients of the same run
//! are. Its key is an ECDSA key of P-256, and lives in memory alone.

use std::fmt;
use std::net::IpAddr;
use std::path::Path;
use std::sync::Arc;

use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
use rustls::crypto::ring as provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::sign::CertifiedKey;
use wirebeat_units::{Fault, fault};

use crate::der::{
    BIT_STRING, INTEGER, OBJECT, OCTET_STRING, SEQUENCE, SET, UTC_TIME, UTF8, all, value,
};

/// ecdsa-with-SHA256 (RFC 5758 §3.2).
const ECDSA_SHA256: [u8; 8] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
/// id-ecPublicKey and secp256r1 (RFC 5480 §2.1.1).
const EC_PUBLIC_KEY: [u8; 7] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 2, 1];
const SECP256R1: [u8; 8] = [0x2a, 0x86, 0x48, 0xce, 0x3d, 3, 1, 7];
/// id-at-commonName, id-ce-subjectAltName (RFC 5280).
const COMMON_NAME: [u8; 3] = [0x55, 4, 3];
const SUBJECT_ALT_NAME: [u8; 3] = [0x55, 0x1d, 0x11];
/// dNSName and iPAddress of GeneralName.
const DNS_NAME: u8 = 0x82;
const IP_ADDRESS: u8 = 0x87;
/// From 2000 to the last year that UTCTime has: no clock is asked.
const NOT_BEFORE: &str = "000101000000Z";
const NOT_AFTER: &str = "491231235959Z";
/// The most certificates of a file: those of all authorities that systems know are some hundred.
const CERTIFICATES_MAX: usize = 4096;
/// Where systems keep the certificates of the authorities that they trust.
const SYSTEM: [&str; 5] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// A certificate with those that lead to its issuer, and its private key.
#[derive(Clone)]
pub struct Identity(pub(crate) Arc<CertifiedKey>);

/// Without the key.
impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identity({} certificates)", self.0.cert.len())
    }
}

impl Identity {
    /// That of a file of certificates and a file of a key, both in PEM.
    ///
    /// # Errors
    /// What the files do not hold, and that the key is another's.
    pub fn of_pem(certificates: &[u8], key: &[u8]) -> Result<Identity, Fault> {
        let chain = certificates_of(certificates)?;
        let key = PrivateKeyDer::from_pem_slice(key)
            .map_err(|_| fault!("the key file holds no private key in PEM"))?;
        Identity::new(chain, key)
    }

    fn new(
        chain: Vec<CertificateDer<'static>>,
        key: PrivateKeyDer<'static>,
    ) -> Result<Identity, Fault> {
        let certified = CertifiedKey::from_der(chain, key, &provider::default_provider());
        let certified = certified.map_err(|error| {
            fault!("the key cannot be used with the certificate: {error}"; "give the key of that certificate")
        })?;
        Ok(Identity(Arc::new(certified)))
    }

    /// One that is made now, for these names and addresses.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn made_for(names: &[String], addresses: &[IpAddr]) -> Result<Identity, Fault> {
        let no_random =
            |_| fault!("a certificate could not be made: the system gives no random numbers");
        let random = SystemRandom::new();
        let algorithm = &ECDSA_P256_SHA256_ASN1_SIGNING;
        let key = EcdsaKeyPair::generate_pkcs8(algorithm, &random).map_err(no_random)?;
        let pair = EcdsaKeyPair::from_pkcs8(algorithm, key.as_ref(), &random)
            .map_err(|error| fault!("a certificate could not be made: {error}"))?;
        let mut serial = [0; 16];
        random.fill(&mut serial).map_err(no_random)?;
        let content = content(&serial, pair.public_key().as_ref(), names, addresses);
        let signature = pair.sign(&random, &content).map_err(no_random)?;
        let certificate =
            all(SEQUENCE, &[content, algorithm_of_signature(), bits(signature.as_ref())]);
        let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.as_ref().to_vec()));
        Identity::new(vec![certificate.into()], key)
    }

    /// The certificate itself.
    pub(crate) fn certificate(&self) -> Option<&CertificateDer<'static>> {
        self.0.cert.first()
    }
}

/// The certificates of a file in PEM, in their order.
pub(crate) fn certificates_of(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let read = CertificateDer::pem_slice_iter(pem).take(CERTIFICATES_MAX + 1);
    let certificates: Result<Vec<_>, _> = read.collect();
    match certificates {
        Ok(all) if all.len() > CERTIFICATES_MAX => {
            Err(fault!("it holds more than {CERTIFICATES_MAX} certificates"; "leave some out"))
        }
        Ok(all) if !all.is_empty() => Ok(all),
        _ => Err(fault!("it holds no certificate in PEM")),
    }
}

/// Where this system keeps the certificates of the authorities that it trusts.
pub fn system_authorities() -> Option<&'static Path> {
    SYSTEM.into_iter().map(Path::new).find(|path| path.is_file())
}

/// What is signed: TBSCertificate (RFC 5280 §4.1).
fn content(serial: &[u8; 16], key: &[u8], names: &[String], addresses: &[IpAddr]) -> Vec<u8> {
    let mut serial = *serial;
    // positive, and without a leading zero
    serial[0] = serial[0] & 0x7f | 0x40;
    let name = all(SEQUENCE, &[value(OBJECT, &COMMON_NAME), value(UTF8, b"wirebeat")]);
    let name = all(SEQUENCE, &[value(SET, &name)]);
    let times = [NOT_BEFORE, NOT_AFTER].map(|time| value(UTC_TIME, time.as_bytes()));
    let kind = all(SEQUENCE, &[value(OBJECT, &EC_PUBLIC_KEY), value(OBJECT, &SECP256R1)]);
    let names = names.iter().map(|name| value(DNS_NAME, name.as_bytes()));
    let addresses = addresses.iter().map(|address| match address {
        IpAddr::V4(address) => value(IP_ADDRESS, &address.octets()),
        IpAddr::V6(address) => value(IP_ADDRESS, &address.octets()),
    });
    let names: Vec<Vec<u8>> = names.chain(addresses).collect();
    let names = value(OCTET_STRING, &all(SEQUENCE, &names));
    let extension = all(SEQUENCE, &[value(OBJECT, &SUBJECT_ALT_NAME), names]);
    all(
        SEQUENCE,
        &[
            // version 3
            value(0xa0, &value(INTEGER, &[2])),
            value(INTEGER, &serial),
            algorithm_of_signature(),
            name.clone(),
            all(SEQUENCE, &times),
            name,
            all(SEQUENCE, &[kind, bits(key)]),
            value(0xa3, &all(SEQUENCE, &[extension])),
        ],
    )
}

fn algorithm_of_signature() -> Vec<u8> {
    all(SEQUENCE, &[value(OBJECT, &ECDSA_SHA256)])
}

/// Whole bytes as bits.
fn bits(bytes: &[u8]) -> Vec<u8> {
    value(BIT_STRING, &[&[0][..], bytes].concat())
}
