//! What D-ITG sends over TCP, and packets that it wants back (`-m rttm`), as sessions.

use std::net::{IpAddr, Ipv4Addr};

use wirebeat_traffic::scenario::session::{TcpSpec, Transport};
use wirebeat_traffic::scenario::size::Size;

use super::application::SizeOf;
use super::{Flow, Protocol};
use crate::ScriptError;
use crate::draft::Draft;
use crate::pace::Pace;
use crate::session_flow::{SessionFlow, Talk, data_size};

impl Flow<'_> {
    /// What is said in its session. `None`: it has none.
    pub(super) fn talk(&self, draft: &mut Draft<'_>) -> Option<Talk> {
        let command = &self.command;
        if command.no_delay && command.protocol != Some(Protocol::Tcp) {
            draft.leave_out(self.line, "-D", "it is about connections of TCP");
        }
        let to_all = command.destination.is_multicast()
            || command.destination == IpAddr::from(Ipv4Addr::BROADCAST);
        match (command.protocol, command.sends_back) {
            (Some(Protocol::Tcp), false) => Some(Talk::OneWay),
            (Some(Protocol::Tcp), true) => Some(Talk::Echo),
            (None | Some(Protocol::Udp), true) if !to_all => Some(Talk::Echo),
            (_, false) => None,
            (_, true) => {
                let why = "packets come back over UDP and TCP, from one host; the receiver measures one way";
                draft.leave_out(self.line, "-m rttm", why);
                None
            }
        }
    }

    /// Whether messages with numbers and times go over a connection.
    pub(super) fn is_stream_of_messages(&self) -> bool {
        self.command.protocol == Some(Protocol::Tcp) && !self.command.sends_back
    }

    /// Adds its session.
    pub(super) fn session(
        &self,
        draft: &mut Draft<'_>,
        name: String,
        talk: Talk,
    ) -> Result<(), ScriptError> {
        let (command, line) = (&self.command, self.line);
        if let Some(file) = &command.gaps_file {
            let why = format!(
                "-Ft {file}: messages of a session have no times of a file; the flow is not sent"
            );
            draft.leave_out(line, &name, why);
            return Ok(());
        }
        if let Some(file) = &command.content {
            draft.leave_out(
                line,
                &format!("-Fp {file}"),
                "messages of a session have generated data",
            );
        }
        let size = match &command.sizes_file {
            Some(file) => {
                if command.sizes.is_some() {
                    let why = "sizes are those of the file; what else says of them does not hold";
                    draft.leave_out(line, &format!("-Fs {file}"), why);
                }
                Size::List(self.sizes_of(draft, file)?.into())
            }
            None => {
                if let Some(SizeOf::Written(written)) = &command.sizes {
                    self.tell_raised(draft, Some(written));
                }
                self.size(draft, command.sizes.as_ref())?
            }
        };
        let gaps = command.gaps.clone().unwrap_or_default();
        let (pace, nearly) = match Pace::of(&gaps.rate, &self.in_bursts(gaps.departures)) {
            Ok(pace) => pace,
            Err(why) => {
                draft.leave_out(line, &name, format!("{why}; the flow is not sent"));
                return Ok(());
            }
        };
        nearly.into_iter().for_each(|why| draft.leave_out(line, &name, why));
        let count = self.count(draft, Some(&size));
        let Some(size) = data_size(draft, line, &name, &size) else { return Ok(()) };
        let is_tcp = command.protocol == Some(Protocol::Tcp);
        SessionFlow {
            name,
            line: line.clone(),
            what: if command.sends_back { "-m rttm" } else { "-T TCP" },
            tool: "D-ITG",
            port: draft.port(command.interface.as_deref()),
            transport: if is_tcp { Transport::Tcp } else { Transport::Udp },
            talk,
            source: command.source.filter(|source| !source.is_unspecified()),
            source_port: command.source_port,
            server: (command.destination, command.destination_port).into(),
            is_served: false,
            pace,
            size,
            start: command.delay,
            stop: Some(command.delay.saturating_add(command.duration)),
            count,
            tos: command.tos,
            ttl: command.ttl,
            dont_fragment: None,
            // ITGSend leaves it to the system, where small segments wait
            tcp: TcpSpec { nagle: is_tcp && !command.no_delay, ..TcpSpec::default() },
        }
        .add(draft)
    }
}
