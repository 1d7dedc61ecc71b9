//! What is asked of TLS, with the files that it names.

use std::net::IpAddr;
use std::sync::Arc;

use wirebeat_units::Fault;

use crate::compile::Files;
use crate::program::script::{TlsIdentity, TlsPlan};
use crate::scenario::session::{ProgramSpec, SessionSpec, TlsSpec, TlsVersion};

/// The plan of a group; else the key below `tls`, and why not.
pub(super) fn plan(
    tls: &TlsSpec,
    spec: &SessionSpec,
    files: &Files,
) -> Result<TlsPlan, (&'static str, Fault)> {
    let bytes = |key: &'static str, file: &String| -> Result<Arc<[u8]>, (&'static str, Fault)> {
        files.bytes(file).map(Arc::from).map_err(|why| (key, why))
    };
    let file = |key, file: &Option<String>| file.as_ref().map(|file| bytes(key, file)).transpose();
    let has = |version| tls.versions.contains(&version);
    let certificate = file("certificate", &tls.certificate)?;
    let key = file("key", &tls.key)?;
    Ok(TlsPlan {
        server_name: tls.server_name.clone().or_else(|| host(spec)),
        verify: tls.verify,
        authority: file("authority", &tls.authority)?,
        identity: certificate.zip(key).map(|(certificate, key)| TlsIdentity { certificate, key }),
        versions: (has(TlsVersion::Tls12), has(TlsVersion::Tls13)),
        resume: tls.resume,
        alpn: tls.alpn.clone(),
    })
}

/// The name of the host that clients of HTTP ask for, where it is one: an address is none (RFC 6066 §3).
fn host(spec: &SessionSpec) -> Option<String> {
    let ProgramSpec::Http(http) = &spec.program else { return None };
    let host = http.host.as_deref()?;
    if host.starts_with('[') {
        return None;
    }
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name.parse::<IpAddr>().is_err().then(|| name.to_owned())
}
