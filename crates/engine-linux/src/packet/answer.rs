//! Answers in the name of an address and port of this host that no program has.
//!
//! This engine sees datagrams beside the stack, and does not know whose they are. A program that has the port gives the
//! answer itself, and the system then refuses the address; so is one that is not of this host. A sender that gets an answer
//! got none from somebody else. The socket lives as long as it takes to send: the port stays free for programs.

use std::net::{SocketAddr, SocketAddrV6};

use rustix::net::{
    AddressFamily, SendFlags, SocketFlags, SocketType, bind, sendto, socket_with, sockopt,
};
use wirebeat_meter::codecs::{Answer, Ends};
use wirebeat_netlink::Namespace;

/// What answers.
#[derive(Debug)]
pub(super) struct Answerer {
    /// The namespace of the interface: the thread that receives may be in another.
    namespace: Option<Namespace>,
    /// The interface.
    index: u32,
}

impl Answerer {
    /// One for an interface of the calling thread's namespace.
    pub(super) fn here(index: u32) -> Answerer {
        Answerer { namespace: Namespace::current().ok(), index }
    }

    /// Sends an answer, unless a program has the port; says whether it left.
    pub(super) fn send(&self, answer: &Answer) -> bool {
        let Some(namespace) = &self.namespace else { return false };
        let send = || self.send_here(answer).is_ok();
        match Namespace::current() {
            Ok(here) if here == *namespace => send(),
            _ => namespace.run(send).unwrap_or(false),
        }
    }

    fn send_here(&self, answer: &Answer) -> rustix::io::Result<()> {
        let Ends { source, destination } = answer.ends;
        let (to, from) = (self.scoped(source), self.scoped(destination));
        let family = if from.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::DGRAM, flags, None)?;
        if from.is_ipv6() {
            sockopt::set_ipv6_v6only(&socket, true)?;
        }
        bind(&socket, &from)?;
        sendto(&socket, answer.payload(), SendFlags::NOSIGNAL, &to)?;
        Ok(())
    }

    /// An address with the interface where it needs one.
    fn scoped(&self, address: SocketAddr) -> SocketAddr {
        match address {
            SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() => {
                SocketAddrV6::new(*v6.ip(), v6.port(), 0, self.index).into()
            }
            other => other,
        }
    }
}
