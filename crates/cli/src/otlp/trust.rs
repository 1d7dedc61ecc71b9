//! Whose certificates a collector may show.

use std::sync::Arc;

use rustls::ClientConfig;
use rustls::crypto::ring;
use wirebeat_run::Trusted;
use wirebeat_units::{Fault, fault};

use super::endpoint::{Endpoint, Scheme};
use super::settings::Settings;
use crate::failure::Failure;
use crate::metrics::security::{Secret, read};

/// TLS 1.3 with the authorities of the file that was named; `None` where the URL is without TLS.
///
/// # Errors
/// No file was named, or it is of no use.
pub fn trust(settings: &Settings) -> Result<Option<Arc<ClientConfig>>, Failure> {
    let Settings { endpoint, authority, .. } = settings;
    if endpoint.scheme == Scheme::Http {
        return Ok(None);
    }
    let (path, place) = authority.as_ref().ok_or_else(|| {
        let fault = fault!(
            "an https:// URL needs the certificates of the authority that the collector's certificate leads to";
            "give them in PEM by --otlp-ca or OTEL_EXPORTER_OTLP_CERTIFICATE; those that this system trusts are \
             in /etc/ssl/certs/ca-certificates.crt (Debian) or /etc/pki/tls/cert.pem (Fedora)"
        );
        Failure::usage(fault).at(format!("--otlp {}", endpoint.url()))
    })?;
    let failed = |fault: Fault| Failure::usage(fault).at(format!("{place} {}", path.display()));
    let pem = read(path, Secret::No).map_err(failed)?;
    let trusted = Trusted::authorities(&pem).map_err(failed)?;
    let with = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let with = with
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(fault!("TLS cannot be used: {error}")))?;
    // a collector in a lab often has a certificate that signed itself, which rustls takes from nobody
    let with = with.dangerous().with_custom_certificate_verifier(trusted.verifier());
    Ok(Some(Arc::new(with.with_no_client_auth())))
}

/// Whether a certificate can be for the host of this URL.
pub fn names(endpoint: &Endpoint) -> Result<rustls::pki_types::ServerName<'static>, Fault> {
    let name = rustls::pki_types::ServerName::try_from(endpoint.host.clone());
    name.map_err(|_| fault!("no certificate can be for the host '{}'", endpoint.host))
}
