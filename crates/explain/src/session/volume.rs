//! How much a session says, and the bandwidth at the planned rate.

use wirebeat_traffic::compile::pauses::{pauses, until_stop};
use wirebeat_traffic::compile::volume::{MSS, Volume, Volumes};
use wirebeat_traffic::program::script::SessionGroup;
use wirebeat_traffic::scenario::session::{ProgramSpec, SessionSpec, Transport};
use wirebeat_units::{Layer, human};

use crate::flow;
use crate::page::Page;

/// How much goes each way, and what that is at the planned rate.
pub(super) fn data(
    page: &mut Page,
    spec: &SessionSpec,
    group: &SessionGroup,
    volumes: Volumes,
    rate: Option<f64>,
) {
    let unknown = match &spec.program {
        ProgramSpec::Bulk(_) => "as much as goes through",
        endless if endless.is_endless() => "as much as there is time for",
        _ => "not known before",
    };
    let said = |volume: Option<Volume>| match volume {
        Some(volume) if volume.bytes == 0.0 => "nothing".to_owned(),
        Some(volume) => human::bytes(volume.bytes),
        None => unknown.to_owned(),
    };
    page.fact(
        "data",
        &format!(
            "of a session: to the server {}, to the client {}",
            said(volumes.up),
            said(volumes.down)
        ),
    );
    // how data is cut into chunks is the system's choice
    if spec.transport != Transport::Tcp {
        return;
    }
    let Some(exchanged) = volumes.exchanged(spec, group) else { return };
    let [to_server, to_client] = exchanged.segments;
    page.more(&format!(
        "about {} segments to the server and {} to the client, where nothing is lost and {MSS} bytes fit a segment",
        flow::number(to_server.round()),
        flow::number(to_client.round())
    ));
    let Some(starts) = rate else { return };
    // Sessions that last longer than they go on starting are never all at the full rate: their data is spread over that time.
    let lasts = pauses(spec, group);
    let starting = spec.count.map_or(f64::MAX, |count| count.get() as f64 / starts);
    let starting = starting.min(until_stop(group).unwrap_or(f64::MAX));
    let rate = if lasts > starting { starts * starting / lasts } else { starts };
    let each = match lasts > 0.0 {
        true => format!(", each {} at least by its pauses", human::time(lasts * 1e9)),
        false => String::new(),
    };
    let bandwidth = |way: usize, layer: Layer| human::bit_rate(rate * exchanged.bits(way, layer));
    page.fact(
        "bandwidth",
        &format!(
            "at {} sessions/s{each}: to the server {} ({} on the line), to the client {} ({} on the line)",
            flow::number(starts),
            bandwidth(0, Layer::Payload),
            bandwidth(0, Layer::Line),
            bandwidth(1, Layer::Payload),
            bandwidth(1, Layer::Line)
        ),
    );
}
