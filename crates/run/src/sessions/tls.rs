//! TLS of the groups of a run: certificates are made and read before any session starts.
//!
//! Where both ends are ours and no authority is named, clients take exactly the certificate of our server. Otherwise they take those
//! that the authorities of a file vouch for, or those of the system. A server without a certificate gets one that is made for the run.

use std::path::Path;

use wirebeat_tls::{
    ClientSettings, Ends, Identity, ServerSettings, Trusted, Versions, system_authorities,
};
use wirebeat_traffic::program::script::{SessionGroup, Sessions, TlsIdentity, TlsPlan};
use wirebeat_units::{Fault, fault};

use crate::error::RunError;
use crate::files::read_one;

/// The longest file of the system's authorities, in bytes.
const LONGEST: u64 = 16 << 20;
/// Addresses that a certificate which is made is for, at most.
const ADDRESSES_MAX: u64 = 64;

/// The ends of all groups that have TLS, by their numbers.
///
/// # Errors
/// A file that holds no certificate or key, a key of another certificate, a system without authorities.
pub(super) fn ends(sessions: &Sessions) -> Result<Vec<Option<Ends>>, RunError> {
    let mut of_system = None;
    let ends = sessions.groups.iter().map(|group| {
        let Some(plan) = &group.tls else { return Ok(None) };
        of_group(group, plan, &mut of_system).map(Some).map_err(|(key, why)| {
            RunError::usage(why.at(format!("sessions.{}.tls{key}", group.name)))
        })
    });
    ends.collect()
}

/// The ends of a group; else the key below `tls`, and why not.
fn of_group(
    group: &SessionGroup,
    plan: &TlsPlan,
    of_system: &mut Option<Trusted>,
) -> Result<Ends, (&'static str, Fault)> {
    let (tls_1_2, tls_1_3) = plan.versions;
    let versions = Versions { tls_1_2, tls_1_3 };
    let identity = match &group.to {
        Some(_) => Some(identity(group, plan).map_err(|why| (".certificate", why))?),
        None => None,
    };
    let trusted = match &group.from {
        Some(_) => Some(trusted(plan, identity.as_ref(), of_system)?),
        None => None,
    };
    let TlsPlan { server_name, resume, alpn, .. } = plan;
    let (resume, alpn) = (*resume, alpn.clone());
    let client = trusted.map(|trusted| ClientSettings {
        server_name: server_name.clone(),
        trusted,
        versions,
        resume,
        alpn: alpn.clone(),
    });
    let server =
        identity.map(|identity| ServerSettings { identity, versions, resume, alpn: alpn.clone() });
    Ends::new(client, server).map_err(|why| (".server-name", why))
}

/// Who the servers of a group are.
fn identity(group: &SessionGroup, plan: &TlsPlan) -> Result<Identity, Fault> {
    if let Some(TlsIdentity { certificate, key }) = &plan.identity {
        return Identity::of_pem(certificate, key);
    }
    let names = plan.server_name.iter().cloned().chain(["localhost".to_owned()]);
    let pool = &group.servers.pool.addresses;
    let addresses = (0..pool.len().min(ADDRESSES_MAX)).filter_map(|n| pool.get(n));
    Identity::made_for(&names.collect::<Vec<_>>(), &addresses.collect::<Vec<_>>())
}

/// Whose certificates the clients of a group take.
fn trusted(
    plan: &TlsPlan,
    identity: Option<&Identity>,
    of_system: &mut Option<Trusted>,
) -> Result<Trusted, (&'static str, Fault)> {
    if !plan.verify {
        return Ok(Trusted::any());
    }
    if let Some(pem) = &plan.authority {
        return Trusted::authorities(pem).map_err(|why| (".authority", why));
    }
    if let Some(identity) = identity {
        return Ok(Trusted::only(identity));
    }
    if let Some(known) = of_system {
        return Ok(known.clone());
    }
    let trusted = match system_authorities() {
        Some(path) => read(path),
        None => {
            Err(fault!("this system has no certificates of authorities where systems keep them"))
        }
    };
    let hint = "name a file in 'authority', or write 'verify: false'";
    let trusted = trusted.map_err(|why| ("", why.or_hint(hint)))?;
    Ok(of_system.insert(trusted).clone())
}

fn read(path: &Path) -> Result<Trusted, Fault> {
    let pem = read_one(path, LONGEST);
    pem.and_then(|pem| Trusted::authorities(&pem)).map_err(|why| why.at(path.display().to_string()))
}
