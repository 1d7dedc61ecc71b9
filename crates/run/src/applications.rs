//! What found no room in the sockets of the programs that datagrams are passed on to.
//!
//! A receiver that looks at an interface counts what arrived there. A program that reads too slowly loses some of it behind
//! that, in its own socket, and neither the sender nor the interface knows. Here that is read from the kernel's counters,
//! over a run. Knows nothing of what was measured.

use wirebeat_host::udp::{self, UdpSockets};
use wirebeat_units::printable::printable;

use crate::engines::{Ability, Engine};
use crate::error::RunError;
use crate::ports::ResolvedPort;
use crate::receive::ReceiveRequest;

/// Watches the sockets of a port's namespace.
#[derive(Debug)]
pub(crate) struct Applications {
    before: UdpSockets,
    /// The only port that counts.
    port: Option<u16>,
}

/// At most so many sockets are named.
const NAMED: usize = 8;

impl Applications {
    /// From now on: the sockets of the UDP port of the request, or of all. `None` where no datagram goes on to a program.
    pub(crate) fn watch(
        at: &ResolvedPort,
        engine: Engine,
        request: &ReceiveRequest,
    ) -> Result<Option<Applications>, RunError> {
        let passed_on =
            engine.can(Ability::PassAlways) || (engine.can(Ability::PassOnRequest) && request.pass);
        let watch = |before| Applications { before, port: request.filter.destination_port };
        passed_on.then(|| at.enter(UdpSockets::observe).map(watch)).transpose()
    }

    /// What found no room since then, in words: for each socket, and for those that are closed again together.
    pub(crate) fn findings(&self, at: &ResolvedPort) -> Vec<String> {
        let Ok(after) = at.enter(UdpSockets::observe) else { return Vec::new() };
        let mut named = 0;
        let mut found: Vec<(u64, String)> = Vec::new();
        for socket in after.sockets.values() {
            let before = self.before.sockets.get(&socket.inode).map_or(0, |socket| socket.drops);
            let drops = socket.drops.saturating_sub(before);
            if drops == 0 {
                continue;
            }
            named += drops;
            if self.port.is_some_and(|port| port != socket.local.port()) {
                continue;
            }
            let who = match udp::owner(socket.inode) {
                Some((pid, name)) => {
                    format!("the socket of {} (process {pid}) on", printable(&name))
                }
                None => "the socket of a program on".to_owned(),
            };
            let said = format!(
                "{who} UDP port {} dropped {drops} of what arrived, for its receive buffer was full: the program reads too \
                 slowly, or its buffer is small (SO_RCVBUF, net.core.rmem_max)",
                socket.local.port()
            );
            found.push((drops, said));
        }
        found.sort_by_key(|(drops, _)| std::cmp::Reverse(*drops));
        let mut all: Vec<String> = found.into_iter().map(|(_, said)| said).take(NAMED).collect();
        // what a socket that is closed again has dropped is in the sum alone
        let closed = after.no_room.saturating_sub(self.before.no_room).saturating_sub(named);
        if closed > 0 {
            all.push(format!(
                "{closed} datagrams found no room in sockets that are closed again (RcvbufErrors of this network namespace, \
                 whatever their ports)"
            ));
        }
        all
    }
}
