//! Whose certificates a client takes.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring as provider};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use wirebeat_units::{Fault, fault};

use crate::certificate::{Identity, certificates_of};

/// Whose certificates a client takes.
#[derive(Clone, Debug)]
pub struct Trusted(Arc<Verifier>);

/// Which certificates are taken.
#[derive(Debug)]
enum Taken {
    /// All, whatever they say.
    Any,
    /// Exactly this one, whatever name it has: that of our own server.
    This(CertificateDer<'static>),
    /// Those that an authority vouches for, and that of an authority itself, each for the name of the server.
    Of { authorities: Vec<CertificateDer<'static>>, chains: Option<Arc<WebPkiServerVerifier>> },
}

#[derive(Debug)]
struct Verifier {
    taken: Taken,
    /// How signatures of handshakes are checked. Those are right with any certificate: the server has the key of the one that it shows.
    algorithms: WebPkiSupportedAlgorithms,
}

impl Trusted {
    fn new(taken: Taken) -> Trusted {
        let algorithms = provider::default_provider().signature_verification_algorithms;
        Trusted(Arc::new(Verifier { taken, algorithms }))
    }

    /// Any certificate: nothing is checked but that the server has its key.
    pub fn any() -> Trusted {
        Trusted::new(Taken::Any)
    }

    /// The certificate of our own server, and no other.
    pub fn only(identity: &Identity) -> Trusted {
        match identity.certificate() {
            Some(certificate) => Trusted::new(Taken::This(certificate.clone())),
            None => Trusted::new(Taken::Of { authorities: Vec::new(), chains: None }),
        }
    }

    /// The authorities of a file in PEM. A certificate that is in it itself, as one that signed itself, is taken too.
    ///
    /// # Errors
    /// The file holds no certificates.
    pub fn authorities(pem: &[u8]) -> Result<Trusted, Fault> {
        let authorities = certificates_of(pem)?;
        let mut roots = RootCertStore::empty();
        // some systems have certificates that are none by today's rules: the others are good
        let (good, _) = roots.add_parsable_certificates(authorities.iter().cloned());
        if good == 0 {
            return Err(fault!("it holds no certificate of an authority that can be read"));
        }
        let with = Arc::new(provider::default_provider());
        let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), with).build();
        let chains = chains.map_err(|error| fault!("its certificates cannot be used: {error}"))?;
        Ok(Trusted::new(Taken::Of { authorities, chains: Some(chains) }))
    }

    /// The same for a client of rustls. It checks the name of the server, and that the server has the key.
    pub fn verifier(&self) -> Arc<dyn ServerCertVerifier> {
        Arc::<Verifier>::clone(&self.0)
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let unknown = || Error::InvalidCertificate(CertificateError::UnknownIssuer);
        match &self.taken {
            Taken::Any => Ok(ServerCertVerified::assertion()),
            Taken::This(certificate) if certificate == end_entity => {
                Ok(ServerCertVerified::assertion())
            }
            Taken::This(_) => Err(unknown()),
            Taken::Of { authorities, .. } if authorities.iter().any(|one| one == end_entity) => {
                let certificate = ParsedCertificate::try_from(end_entity)?;
                verify_server_name(&certificate, server_name)?;
                Ok(ServerCertVerified::assertion())
            }
            Taken::Of { chains, .. } => {
                let chains = chains.as_ref().ok_or_else(unknown)?;
                let verified = chains.verify_server_cert(
                    end_entity,
                    intermediates,
                    server_name,
                    ocsp_response,
                    now,
                );
                verified.map_err(|error| match error {
                    // it signed itself, as many do in labs, and nobody vouches for it
                    Error::InvalidCertificate(CertificateError::Other(other))
                        if other.0.to_string() == "CaUsedAsEndEntity" =>
                    {
                        unknown()
                    }
                    error => error,
                })
            }
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
