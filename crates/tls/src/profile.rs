//! What a group asks of TLS, as rustls has it.

use std::net::IpAddr;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::ring as provider;
use rustls::pki_types::ServerName;
use rustls::server::NoServerSessionStorage;
use rustls::sign::SingleCertAndKey;
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ServerConfig, SupportedProtocolVersion};
use wirebeat_units::{Fault, fault};

use crate::certificate::Identity;
use crate::trust::Trusted;

/// Servers of which a client keeps tickets.
const SERVERS_MAX: usize = 256;

/// Which versions are offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Versions {
    /// TLS 1.2 (RFC 5246).
    pub tls_1_2: bool,
    /// TLS 1.3 (RFC 8446).
    pub tls_1_3: bool,
}

impl Default for Versions {
    fn default() -> Self {
        Versions { tls_1_2: true, tls_1_3: true }
    }
}

impl Versions {
    fn all(self) -> Vec<&'static SupportedProtocolVersion> {
        let both = [(self.tls_1_3, &TLS13), (self.tls_1_2, &TLS12)];
        both.into_iter().filter(|(has, _)| *has).map(|(_, version)| version).collect()
    }
}

/// What clients ask for.
#[derive(Clone, Debug)]
pub struct ClientSettings {
    /// The name that the server is asked for, and that its certificate is to have; `None`: its address.
    pub server_name: Option<String>,
    /// Whose certificates are taken.
    pub trusted: Trusted,
    /// Which versions.
    pub versions: Versions,
    /// Whether sessions are resumed by tickets.
    pub resume: bool,
    /// Application protocols by ALPN (RFC 7301), the preferred one first; empty: none is asked for.
    pub alpn: Vec<String>,
}

/// What servers offer.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    /// Who they are.
    pub identity: Identity,
    /// Which versions.
    pub versions: Versions,
    /// Whether they give tickets.
    pub resume: bool,
    /// Application protocols; empty: whatever is asked for.
    pub alpn: Vec<String>,
}

/// The ends of a group that have TLS.
#[derive(Clone, Debug, Default)]
pub struct Ends {
    pub(crate) client: Option<ClientEnd>,
    pub(crate) server: Option<Arc<ServerConfig>>,
}

/// The clients of a group.
#[derive(Clone, Debug)]
pub(crate) struct ClientEnd {
    pub(crate) config: Arc<ClientConfig>,
    resume: bool,
    name: Option<ServerName<'static>>,
}

impl ClientEnd {
    /// Whom a client at `remote` asks for.
    pub(crate) fn name(&self, remote: IpAddr) -> ServerName<'static> {
        self.name.clone().unwrap_or_else(|| ServerName::from(remote))
    }
}

fn protocols(alpn: &[String]) -> Vec<Vec<u8>> {
    alpn.iter().map(|name| name.clone().into_bytes()).collect()
}

fn cannot(error: &rustls::Error) -> Fault {
    fault!("TLS cannot be set up: {error}")
}

impl Ends {
    /// Those of a group, as far as they are ours.
    ///
    /// # Errors
    /// A name that is none, and what rustls cannot do.
    pub fn new(
        client: Option<ClientSettings>,
        server: Option<ServerSettings>,
    ) -> Result<Ends, Fault> {
        Ok(Ends {
            client: client.map(ClientEnd::new).transpose()?,
            server: server.map(server_config).transpose()?.map(Arc::new),
        })
    }

    /// The same for another thread: tickets of clients are its own, so that no thread waits for another.
    pub(crate) fn for_thread(mut self) -> Ends {
        if let Some(client) = &mut self.client {
            let mut config = ClientConfig::clone(&client.config);
            config.resumption = resumption(client.resume);
            client.config = Arc::new(config);
        }
        self
    }
}

impl ClientEnd {
    fn new(settings: ClientSettings) -> Result<ClientEnd, Fault> {
        let ClientSettings { server_name, trusted, versions, resume, alpn } = settings;
        let name = server_name.map(|name| {
            ServerName::try_from(name.clone())
                .map_err(|_| fault!("'{name}' is not the name of a server"; "write for example www.example.com"))
        });
        let with = ClientConfig::builder_with_provider(Arc::new(provider::default_provider()));
        let with = with
            .with_protocol_versions(&versions.all())
            .map_err(|error| cannot(&error))?
            .dangerous()
            .with_custom_certificate_verifier(trusted.verifier());
        let mut config = with.with_no_client_auth();
        config.alpn_protocols = protocols(&alpn);
        config.resumption = resumption(resume);
        Ok(ClientEnd { config: Arc::new(config), resume, name: name.transpose()? })
    }
}

fn resumption(resume: bool) -> Resumption {
    match resume {
        true => Resumption::in_memory_sessions(SERVERS_MAX),
        false => Resumption::disabled(),
    }
}

fn server_config(settings: ServerSettings) -> Result<ServerConfig, Fault> {
    let ServerSettings { identity, versions, resume, alpn } = settings;
    let with = ServerConfig::builder_with_provider(Arc::new(provider::default_provider()));
    let with = with.with_protocol_versions(&versions.all()).map_err(|error| cannot(&error))?;
    let certified = Arc::new(SingleCertAndKey::from(identity.0));
    let mut config = with.with_no_client_auth().with_cert_resolver(certified);
    config.alpn_protocols = protocols(&alpn);
    // tickets hold all of a session (RFC 5077, RFC 8446 §4.6.1), so that nothing is kept here for sessions that are over
    config.session_storage = Arc::new(NoServerSessionStorage {});
    match resume {
        true => config.ticketer = provider::Ticketer::new().map_err(|error| cannot(&error))?,
        false => config.send_tls13_tickets = 0,
    }
    Ok(config)
}
