//! The frame that everybody sends: UDP over IPv4, 64 bytes long with FCS, to the discard service. And
//! the files from which tools take it that are not told what to send.

use std::collections::HashMap;
use std::fs;
use std::path::PathBuf;

use wirebeat_traffic::compile::{Link, Links, Route, compile};
use wirebeat_traffic::program::Program;
use wirebeat_traffic::scenario::header::Header;
use wirebeat_traffic::scenario::header::ipv4::Ipv4;
use wirebeat_traffic::scenario::header::udp::Udp;
use wirebeat_traffic::scenario::pattern::Field;
use wirebeat_traffic::scenario::{FlowSpec, PortSpec, Probe, Scenario, Size};
use wirebeat_units::{FrameLen, Nanos};

use crate::lab::{Failure, Lab};
use crate::{pcap, peers};

/// Names of the ports, and of their namespaces, in scenarios.
pub const NEAR: &str = "a";
/// The other end.
pub const FAR: &str = "b";
/// Longer than any measurement.
const LONG: Nanos = Nanos::from_secs(3600);
/// Frames in the capture file: enough that going back to its beginning does not count.
const CAPTURED: u32 = 100_000;

/// Files for tools that send what they find in one.
#[derive(Debug)]
pub struct Files {
    /// For tcpreplay.
    pub capture: PathBuf,
    /// For trafgen.
    pub description: PathBuf,
}

impl Files {
    /// Writes them.
    pub fn write(lab: &Lab) -> Result<Files, Failure> {
        let frame = first(lab, flow(lab))?;
        let files = Files {
            capture: lab.folder.file("frames.pcap"),
            description: lab.folder.file("frame.cfg"),
        };
        fs::write(&files.capture, pcap::repeated(&frame, CAPTURED))?;
        fs::write(&files.description, peers::describe(&frame))?;
        Ok(files)
    }
}

/// The first frame of a flow, without a probe.
pub fn first(lab: &Lab, flow: FlowSpec) -> Result<Vec<u8>, Failure> {
    let program = program(lab, FlowSpec { probe: Probe::Off, ..flow })?;
    let image = program.streams.first().ok_or("a scenario lost its frames")?.frames.frame();
    let mut frame = vec![0; image.longest().size()];
    image.build(0, &mut frame);
    Ok(frame)
}

/// The flow from the near to the far end, as fast as possible, with a probe, to no receiver of ours.
pub fn flow(lab: &Lab) -> FlowSpec {
    let destination = Some(Field::Fixed(lab.far().ipv4));
    let ipv4 = Ipv4 { destination, ..Ipv4::default() };
    FlowSpec {
        packet: vec![Header::Ipv4(ipv4), Header::Udp(Udp::default())].into(),
        size: Some(Size::frame(FrameLen::MIN)),
        ..FlowSpec::from_port(NEAR)
    }
}

/// The program of a flow that lasts until it is stopped, for what is driven without a run around it.
pub fn program(lab: &Lab, flow: FlowSpec) -> Result<Program, Failure> {
    let mut scenario = Scenario::default();
    let port = |engine| PortSpec { engine, ..PortSpec::default() };
    for name in [NEAR, FAR] {
        scenario.ports.insert(name.to_owned(), port(Default::default()));
    }
    scenario.flows.insert("bench".to_owned(), flow);
    scenario.run.time = Some(LONG);
    let (near, far) = (lab.near(), lab.far());
    let route = Route { source: Some(near.ipv4.into()), next_hop: Some(far.mac) };
    let link = Link {
        mac: Some(near.mac),
        addresses: vec![near.ipv4.into()],
        routes: HashMap::from([(far.ipv4.into(), route)]),
        ..Link::default()
    };
    let other = Link { addresses: vec![far.ipv4.into()], ..Link::default() };
    let links = Links { ports: HashMap::from([(NEAR.to_owned(), link), (FAR.to_owned(), other)]) };
    Ok(compile(&scenario, &links, &Default::default())?)
}
