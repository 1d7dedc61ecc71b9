//! Whose certificates a collector may show.

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
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
    let roots = roots(path).map_err(failed)?;
    let with = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let with = with
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(fault!("TLS cannot be used: {error}")))?;
    Ok(Some(Arc::new(with.with_root_certificates(roots).with_no_client_auth())))
}

fn roots(path: &Path) -> Result<RootCertStore, Fault> {
    let text = read(path, Secret::No)?;
    let all = CertificateDer::pem_slice_iter(&text).filter_map(Result::ok);
    let mut roots = RootCertStore::empty();
    let (added, _) = roots.add_parsable_certificates(all);
    match added {
        0 => Err(fault!("it holds no certificate in PEM")),
        _ => Ok(roots),
    }
}

/// Whether a certificate can be for the host of this URL.
pub fn names(endpoint: &Endpoint) -> Result<rustls::pki_types::ServerName<'static>, Fault> {
    let name = rustls::pki_types::ServerName::try_from(endpoint.host.clone());
    name.map_err(|_| fault!("no certificate can be for the host '{}'", endpoint.host))
}
