//! The frames of a flow: their bytes, and every field by its name.

use wirebeat_traffic::compile::CompileError;
use wirebeat_traffic::compile::anatomy::{Content, FieldInfo, anatomy};
use wirebeat_traffic::program::{Built, Stream};
use wirebeat_traffic::scenario::header::Header;
use wirebeat_traffic::scenario::header::payload::Payload;
use wirebeat_traffic::scenario::{FlowSpec, Probe};

use crate::Checked;
use crate::page::Page;
use crate::words;

/// How many frames are shown where they differ.
const DIFFERENT: u64 = 3;
/// Bytes of a probe of Wirebeat's own.
const PROBE: u16 = 16;

/// What the probe is.
pub fn probe(flow: &FlowSpec, stream: &Stream) -> String {
    match stream.frames.codec() {
        None if flow.probe == Probe::Off => "none: frames are counted, and not measured".to_owned(),
        None => "none: a whole frame stays as it is, and is counted, not measured".to_owned(),
        Some(codec) if codec.name() == "wirebeat" => {
            "Wirebeat's, in the last 16 bytes of the payload; stamped when a frame leaves"
                .to_owned()
        }
        Some(codec) => format!(
            "of the format {codec}, at the beginning of the payload; stamped when a frame leaves"
        ),
    }
}

/// Explains the first frames of a stream.
pub fn explain(
    page: &mut Page,
    checked: &Checked,
    name: &str,
    flow: &FlowSpec,
    stream: &Stream,
    count: Option<u64>,
) -> Result<(), CompileError> {
    if flow.is_captured() {
        page.hang("    ", "frames as they were captured, with what 'rewrite' makes other");
        return Ok(());
    }
    let same = stream.frames.period() == Some(1);
    let count = count.unwrap_or(if same { 1 } else { DIFFERENT });
    let fields = anatomy(&checked.scenario, &checked.links, name, flow)?;
    let mut first = Vec::new();
    for n in 0..count {
        let (built, frame) = build(stream, n);
        let parts = match stream.frames.parts(n) {
            1 => String::new(),
            parts => format!(", leaving as {parts} IP fragments; before it is cut:"),
        };
        page.fact(&format!("frame {n}"), &format!("{} bytes with FCS{parts}", built.counted.bytes));
        page.hex(&frame);
        if n == 0 {
            explain_headers(page, &fields, &frame);
            explain_payload(page, flow, stream, &built);
            first = frame;
        } else {
            differences(page, &fields, &first, &frame);
        }
    }
    Ok(())
}

/// Frame `n`, as it would leave at time 0.
fn build(stream: &Stream, n: u64) -> (Built, Vec<u8>) {
    let mut frame = vec![0; stream.frames.longest_packet()];
    let built = stream.frames.frame().build(n, &mut frame);
    frame.truncate(built.len as usize);
    built.stamp(&mut frame, n as u32, Default::default());
    (built, frame)
}

/// A paragraph for each header, and a line for each field that changes.
fn explain_headers(page: &mut Page, fields: &[FieldInfo], frame: &[u8]) {
    if fields.is_empty() {
        page.hang("    ", "a whole frame: its bytes are sent as they are");
    }
    for header in fields.chunk_by(|a, b| a.number == b.number) {
        let title = header.first().map_or("", |field| field.header);
        let fixed = header.iter().filter(|field| words::pattern(field).is_none());
        let said: Vec<String> =
            fixed.map(|field| format!("{} {}", field.name, words::value(field, frame))).collect();
        page.hang(&format!("    {title:<10}"), &said.join(", "));
        for field in header {
            if let Some(pattern) = words::pattern(field) {
                let value = words::value(field, frame);
                page.hang("              ~ ", &format!("{} {value}, {pattern}", field.name));
            }
        }
    }
}

fn explain_payload(page: &mut Page, flow: &FlowSpec, stream: &Stream, built: &Built) {
    let begin = stream.frames.headers_len();
    let content = flow.packet.iter().find_map(|header| match header {
        Header::Payload(payload) => Some(payload),
        _ => None,
    });
    let whole = flow.packet.iter().any(|header| matches!(header, Header::Raw(_)));
    if whole {
        return;
    }
    let content = match content.unwrap_or(&Payload::Zeros) {
        Payload::Zeros => "zeros".to_owned(),
        Payload::Random => "bytes drawn from the seed".to_owned(),
        Payload::Pattern(_) => "a pattern, repeated".to_owned(),
        Payload::Text(_) => "a text, then zeros".to_owned(),
        Payload::File(file) => format!("the file '{file}', then zeros"),
    };
    let len = built.counted.payload;
    let mut words = format!("{len} bytes from 0x{begin:04x} on");
    match (built.probe_at, stream.frames.codec()) {
        (Some(at), Some(codec)) if codec.name() == "wirebeat" => {
            if len > PROBE {
                words += &format!(": {content}");
            }
            page.hang("    payload   ", &words);
            page.hang(
                "    probe     ",
                &format!(
                    "magic, flow, sequence and time of sending (here 0), {PROBE} bytes from 0x{at:04x} on"
                ),
            );
        }
        (Some(at), Some(codec)) => {
            page.hang("    payload   ", &format!("{words}: {content} behind the probe"));
            page.hang("    probe     ", &format!("of the format {codec}, from 0x{at:04x} on"));
        }
        _ => page.hang("    payload   ", &format!("{words}: {content}")),
    }
    let padding = built.len.saturating_sub(u32::from(begin) + u32::from(len));
    if padding > 0 {
        page.hang(
            "    padding   ",
            &format!("{padding} zeros, up to the shortest frame of Ethernet"),
        );
    }
}

/// What is not as in the first frame.
fn differences(page: &mut Page, fields: &[FieldInfo], first: &[u8], frame: &[u8]) {
    let differs = |field: &&FieldInfo| field.value(first) != field.value(frame);
    let followed = |field: &&FieldInfo| !matches!(field.content, Content::Fixed);
    let said: Vec<String> = (fields.iter())
        .filter(followed)
        .filter(differs)
        .map(|field| format!("{}.{} {}", field.header, field.name, words::value(field, frame)))
        .collect();
    if !said.is_empty() {
        page.hang("              ~ ", &said.join(", "));
    }
}
