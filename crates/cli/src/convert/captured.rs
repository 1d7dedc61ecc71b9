//! A capture as programs of sessions.

use std::path::Path;

use wirebeat_archive::capture::conversations::{Conversation, Keep, Transport as Carried};
use wirebeat_archive::capture::sides::Side;
use wirebeat_import::capture::{
    CaptureOptions, CapturedSessions, ProgramsFound, SessionFacts, TemplateFacts, programs,
};
use wirebeat_run::TemplatePackets;
use wirebeat_traffic::scenario::session::Transport;
use wirebeat_units::{Nanos, human};

use crate::failure::Failure;

/// Whether a file is a capture. One that cannot be read is none: who reads it as text says why.
pub fn is_capture(path: &Path) -> bool {
    let first = wirebeat_run::open_regular(path).ok().flatten().and_then(|mut file| {
        let mut first = [0; 4];
        std::io::Read::read_exact(&mut file, &mut first).ok()?;
        Some(first)
    });
    first.is_some_and(|first| wirebeat_archive::capture::begins(&first))
}

/// The programs of the capture at `path`, which the scenario is to call `name`.
pub fn read(path: &Path, name: &str, options: &CaptureOptions) -> Result<ProgramsFound, Failure> {
    let found = wirebeat_run::recorded::read(path, Keep::All).map_err(Failure::usage)?;
    let sessions: Vec<SessionFacts> = found.conversations.iter().map(facts).collect();
    let span = found.span_ns.map_or(0, |(first, last)| last.saturating_sub(first));
    let captured = CapturedSessions {
        file: name,
        sessions: &sessions,
        span: Nanos::new(u64::try_from(span).unwrap_or(0)),
    };
    let mut programs = programs(&captured, options)
        .map_err(|why| Failure::usage(why).at(path.display().to_string()))?;
    let skipped = found.skipped.iter().filter(|(_, count)| *count > 0);
    programs.left_out.extend(
        skipped.map(|(what, count)| format!("{} left out: {what}", human::counted(count, "frame"))),
    );
    Ok(programs)
}

/// The sessions of the capture at `path`.
pub fn sessions(path: &Path) -> Result<Vec<SessionFacts>, String> {
    let found = wirebeat_run::recorded::read(path, Keep::All).map_err(|why| why.to_string())?;
    Ok(found.conversations.iter().map(facts).collect())
}

/// The packets of the capture at `path`.
pub fn packets(path: &Path) -> Result<TemplateFacts, String> {
    let found = wirebeat_run::template_packets(path).map_err(|why| why.to_string())?;
    let TemplatePackets { packets, client_ports, is_ipv6 } = found;
    Ok(TemplateFacts { packets, client_ports, is_ipv6 })
}

fn facts(it: &Conversation) -> SessionFacts {
    SessionFacts {
        number: it.number,
        transport: match it.transport {
            Carried::Tcp => Transport::Tcp,
            Carried::Udp => Transport::Udp,
        },
        client: it.client,
        server: it.server,
        lasted: Nanos::new(u64::try_from(it.last_ns.saturating_sub(it.first_ns)).unwrap_or(0)),
        turns: it
            .turns
            .iter()
            .map(|turn| (turn.from == Side::Client, turn.bytes.len() as u64))
            .collect(),
        missing: it.missing,
        is_from_the_start: it.is_from_the_start,
        repeated: it.repeated,
    }
}
