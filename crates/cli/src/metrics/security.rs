//! Who may read metrics: on loopback every user of this host, beyond it those with the token, over TLS.

use std::io::Read;
use std::net::SocketAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::version::TLS13;
use wirebeat_run::remote::Key;
use wirebeat_run::{KeySource, open_regular};
use wirebeat_units::{Fault, fault};

use super::MetricsArgs;
use crate::failure::Failure;

/// The longest file of certificates or keys, in bytes.
const LONGEST: u64 = 1 << 20;

/// What guards the metrics at an address.
#[derive(Clone, Debug, Default)]
pub struct Security {
    /// What those who ask have to know.
    pub token: Option<Key>,
    /// How connections are encrypted.
    pub tls: Option<Arc<ServerConfig>>,
}

impl Security {
    /// As flags say, for an address.
    ///
    /// # Errors
    /// Other hosts reach the address, and there is no token or no TLS; or a file that cannot be used.
    pub fn of(args: &MetricsArgs, address: SocketAddr) -> Result<Security, Failure> {
        let guarded = args.metrics_token_file.is_some() && args.metrics_cert.is_some();
        if !address.ip().is_loopback() && !guarded {
            return Err(Failure::usage(beyond(address)).at("--metrics"));
        }
        let token = args.metrics_token_file.as_ref().map(|path| {
            let token = Key::from_source(&KeySource::File(path.clone()));
            token.map_err(|error| Failure::usage(error.fault()).at("--metrics-token-file"))
        });
        // clap has seen to it that there are both or none
        let files = args.metrics_cert.as_deref().zip(args.metrics_cert_key.as_deref());
        let tls = files.map(|(chain, key)| tls(chain, key));
        Ok(Security { token: token.transpose()?, tls: tls.transpose()?.map(Arc::new) })
    }
}

/// Why metrics are not shown at an address, and what would be.
fn beyond(address: SocketAddr) -> Fault {
    let (ip, port) = (address.ip(), address.port());
    fault!(
        "{ip} is reached from other hosts, which get metrics with a token and over TLS alone";
        "give --metrics-token-file, --metrics-cert and --metrics-cert-key; or give 127.0.0.1:{port}, for a Prometheus on \
         this host or a tunnel: ssh -L {port}:127.0.0.1:{port} HOST"
    )
}

/// TLS 1.3 with the certificates and the key of these files.
fn tls(chain: &Path, key: &Path) -> Result<ServerConfig, Failure> {
    let at_chain =
        |fault: Fault| Failure::usage(fault).at(format!("--metrics-cert {}", chain.display()));
    let at_key =
        |fault: Fault| Failure::usage(fault).at(format!("--metrics-cert-key {}", key.display()));
    let text = read(chain, Secret::No).map_err(at_chain)?;
    let certificates: Result<Vec<CertificateDer<'static>>, _> =
        CertificateDer::pem_slice_iter(&text).collect();
    let certificates = certificates
        .ok()
        .filter(|certificates| !certificates.is_empty())
        .ok_or_else(|| at_chain(fault!("it holds no certificate in PEM")))?;
    let text = read(key, Secret::Yes).map_err(at_key)?;
    let private = PrivateKeyDer::from_pem_slice(&text)
        .map_err(|_| at_key(fault!("it holds no private key in PEM")))?;
    let with = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = with
        .with_protocol_versions(&[&TLS13])
        .and_then(|with| with.with_no_client_auth().with_single_cert(certificates, private));
    config.map_err(|error| {
        at_key(fault!("it cannot be used with the certificate: {error}"; "give the key of that certificate"))
    })
}

/// Whether others may not read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Secret {
    /// They may not.
    Yes,
    /// They may.
    No,
}

/// A file of certificates or keys.
///
/// # Errors
/// It cannot be read, is no regular file, is too long, or others can read what is secret.
pub fn read(path: &Path, secret: Secret) -> Result<Vec<u8>, Fault> {
    let unreadable = |error: std::io::Error| fault!("cannot read it: {error}");
    let file = open_regular(path).map_err(unreadable)?;
    let file = file.ok_or_else(|| fault!("it is not a regular file"))?;
    let mode = file.metadata().map_err(unreadable)?.mode() & 0o7777;
    if secret == Secret::Yes && mode & 0o007 != 0 {
        return Err(fault!(
            "every user of this machine can read or change it (mode {mode:04o})";
            "take that away with `chmod o= {}`", path.display()
        ));
    }
    let mut bytes = Vec::new();
    file.take(LONGEST + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    match bytes.len() as u64 > LONGEST {
        true => Err(fault!("it is longer than {LONGEST} bytes")),
        false => Ok(bytes),
    }
}
