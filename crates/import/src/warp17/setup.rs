//! What the commands of a file set up: ports with their test cases, and applications that test cases share.
//!
//! Where WARP17 refuses a command it says so and goes on with the next one, so such a command is named here and has no effect.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use wirebeat_traffic::scenario::session::program::Http;
use wirebeat_traffic::scenario::session::{TcpSpec, Transport};
use wirebeat_units::{Bytes, Nanos, fault};

use super::command::{
    AppSetting, CaseId, Command, Criterion, End, Pools, RateOf, Setting, TcpOption, Timeout,
};
use super::words::Words;
use crate::draft::Draft;
use crate::{Line, ScriptError};

/// The most interfaces of a port (TPG_TEST_MAX_L3_INTF).
const INTERFACES: usize = 10;
/// Where WARP17 has TIME-WAIT unless it is told (api/warp17-sockopt.proto). Its test cases open the ports that they name again and again,
/// which 60 s would not let them.
const TIME_WAIT: Nanos = Nanos::from_millis(500);

/// An address that a port answers for, and the gateway of its VLAN.
pub(super) struct Interface {
    pub line: Line,
    pub address: Ipv4Addr,
    pub vlan: Option<(u16, Ipv4Addr)>,
}

/// A port of WARP17.
pub(super) struct EthPort {
    /// Where it is named first.
    pub line: Line,
    pub interfaces: Vec<Interface>,
    pub gateway: Option<(Line, Ipv4Addr)>,
    pub mtu: Option<Bytes>,
    pub started: bool,
    pub cases: BTreeMap<u32, Case>,
}

/// What an end says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum App {
    /// Requests and responses of these lengths.
    Raw {
        request: u32,
        response: u32,
    },
    Http(Box<Http>),
    /// A share of the sessions for each app of a group.
    Imix(u32),
}

/// An app of IMIX groups.
pub(super) struct ImixApp {
    pub line: Line,
    pub app: Option<App>,
    pub weight: u32,
}

/// Limits of what a packet takes from one end to the other, in microseconds; 0: none.
#[derive(Clone)]
pub(super) struct Latency {
    pub line: Line,
    /// As it is written.
    pub text: String,
    pub max: u32,
    pub average: u32,
}

/// A value, and the line that says it.
pub(super) type Said<T> = Option<(Line, T)>;

/// A test case.
pub(super) struct Case {
    pub line: Line,
    pub end: End,
    pub transport: Transport,
    pub pools: Pools,
    /// Seconds; `None`: for ever.
    pub init: Option<u32>,
    pub uptime: Option<u32>,
    pub downtime: Option<u32>,
    /// In a second; `None`: as many as can be.
    pub open: Option<u32>,
    pub close: Option<u32>,
    pub send: Option<u32>,
    pub criterion: Said<(Criterion, u32)>,
    pub is_async: bool,
    pub app: App,
    /// Where it was told.
    pub app_line: Line,
    pub tcp: TcpSpec,
    pub skips_time_wait: bool,
    pub tos: u8,
    pub vlan: u16,
    pub latency: Option<Latency>,
    /// Whether packets bear times, without which WARP17 measures no latency.
    pub is_stamped: bool,
}

impl Case {
    pub fn new(line: &Line, end: End, transport: Transport, pools: Pools) -> Case {
        let mut tcp = TcpSpec::default();
        if transport == Transport::Tcp {
            tcp.time_wait = Some(TIME_WAIT);
        }
        Case {
            line: line.clone(),
            end,
            transport,
            pools,
            init: Some(0),
            uptime: None,
            downtime: None,
            open: None,
            close: None,
            send: None,
            criterion: None,
            is_async: false,
            app: App::Raw { request: 0, response: 0 },
            app_line: line.clone(),
            tcp,
            skips_time_wait: false,
            tos: 0,
            vlan: 0,
            latency: None,
            is_stamped: false,
        }
    }

    /// What is asked of TCP.
    pub fn tcp(&self) -> TcpSpec {
        let mut tcp = self.tcp.clone();
        if self.skips_time_wait && self.transport == Transport::Tcp {
            tcp.time_wait = Some(Nanos::ZERO);
        }
        tcp
    }

    /// How many sessions its pools make, each address and port with each of the peers.
    pub fn sessions(&self) -> u64 {
        let count = |(addresses, ports): (
            wirebeat_traffic::scenario::session::AddressRange,
            wirebeat_traffic::values::session::PortRange,
        )| {
            addresses.len().saturating_mul(u64::from(ports.last - ports.first) + 1)
        };
        count(self.pools.own).saturating_mul(self.pools.peers.map_or(1, count))
    }
}

/// What a file sets up.
#[derive(Default)]
pub(super) struct Setup {
    pub ports: BTreeMap<u32, EthPort>,
    pub apps: BTreeMap<u32, ImixApp>,
    pub mixes: BTreeMap<u32, Vec<u32>>,
}

/// A command where it stands.
struct At<'a, 'b, 'c> {
    draft: &'c mut Draft<'b>,
    line: &'a Line,
    text: String,
}

impl At<'_, '_, '_> {
    fn leave_out(&mut self, why: impl Into<String>) {
        self.draft.leave_out(self.line, &self.text, why);
    }
}

impl Setup {
    /// Reads a line.
    pub fn line(
        &mut self,
        draft: &mut Draft<'_>,
        line: &Line,
        text: &str,
    ) -> Result<(), ScriptError> {
        let mut words = Words::of(text).map_err(|why| line.wrong(why))?;
        if words.is_empty() {
            return Ok(());
        }
        let command = super::command::read(&mut words).map_err(|why| line.wrong(why))?;
        // messages name a command without its first words, which all have
        let at =
            &mut At { draft, line, text: words.text(if words.is_second("tests") { 2 } else { 0 }) };
        self.apply(command, at)
    }

    fn port(&mut self, number: u32, line: &Line) -> &mut EthPort {
        self.ports.entry(number).or_insert_with(|| EthPort {
            line: line.clone(),
            interfaces: Vec::new(),
            gateway: None,
            mtu: None,
            started: false,
            cases: BTreeMap::new(),
        })
    }

    fn apply(&mut self, command: Command, at: &mut At<'_, '_, '_>) -> Result<(), ScriptError> {
        let runs =
            |port: &u32, setup: &Setup| setup.ports.get(port).is_some_and(|port| port.started);
        let of = match &command {
            Command::Interface { port, .. }
            | Command::Gateway { port, .. }
            | Command::Mtu { port, .. } => Some(*port),
            Command::Add { id, .. } | Command::Delete(id) | Command::Set(id, _) => Some(id.port),
            _ => None,
        };
        if let Some(port) = of.filter(|port| runs(port, self)) {
            at.leave_out(format!("the tests of port {port} run already, and WARP17 refuses it"));
            return Ok(());
        }
        match command {
            Command::Nothing => {}
            Command::Interface { port, address, vlan } => {
                // in VLAN 0, frames have no tag
                let (line, port) = (at.line.clone(), self.port(port, at.line));
                if port.interfaces.len() >= INTERFACES {
                    at.leave_out(format!("a port of WARP17 has at most {INTERFACES} interfaces"));
                } else {
                    port.interfaces.push(Interface { line, address, vlan });
                }
            }
            Command::Gateway { port, gateway } => {
                self.port(port, at.line).gateway = Some((at.line.clone(), gateway));
            }
            Command::Mtu { port, mtu } => {
                use wirebeat_traffic::scenario::PortSpec;
                match PortSpec::MTU.contains(&u64::from(mtu)) {
                    true => self.port(port, at.line).mtu = Some(Bytes::new(mtu.into())),
                    false => {
                        let (least, most) = PortSpec::MTU.into_inner();
                        at.leave_out(format!("an MTU is {least} to {most} bytes here"));
                    }
                }
            }
            Command::Add { id, end, transport, pools } => self.add(id, (end, transport, pools), at),
            Command::Delete(id) => {
                let removed =
                    self.ports.get_mut(&id.port).and_then(|port| port.cases.remove(&id.case));
                if removed.is_none() {
                    at.leave_out("there is no such test case, and WARP17 refuses it");
                }
            }
            Command::Start(port) => self.port(port, at.line).started = true,
            Command::Stop(_) => at.leave_out("a run ends by its time"),
            Command::Set(id, setting) => {
                let case =
                    self.ports.get_mut(&id.port).and_then(|port| port.cases.get_mut(&id.case));
                match case {
                    Some(case) => set(case, setting, at)?,
                    None => at.leave_out("there is no such test case, and WARP17 refuses it"),
                }
            }
            Command::SetApp { index, end, app } => {
                let entry = self.app(index, at.line);
                entry.line = at.line.clone();
                let mut kept = entry.app.take().unwrap_or(App::Raw { request: 0, response: 0 });
                tell(&mut kept, end, app, at)?;
                self.app(index, at.line).app = Some(kept);
            }
            Command::Weight { index, weight } => self.app(index, at.line).weight = weight,
            Command::AddImix { imix, apps } => {
                let without =
                    apps.iter().find(|app| self.apps.get(app).is_none_or(|app| app.app.is_none()));
                match without {
                    Some(app) => {
                        at.leave_out(format!("there is no app {app}, and WARP17 refuses it"))
                    }
                    None => _ = self.mixes.insert(imix, apps),
                }
            }
            Command::DeleteImix(imix) => _ = self.mixes.remove(&imix),
        }
        Ok(())
    }

    fn app(&mut self, index: u32, line: &Line) -> &mut ImixApp {
        self.apps.entry(index).or_insert_with(|| ImixApp {
            line: line.clone(),
            app: None,
            weight: 0,
        })
    }

    fn add(
        &mut self,
        id: CaseId,
        (end, transport, pools): (End, Transport, Pools),
        at: &mut At<'_, '_, '_>,
    ) {
        let cases = &mut self.port(id.port, at.line).cases;
        if cases.contains_key(&id.case) {
            at.leave_out("there is such a test case already, and WARP17 refuses it");
            return;
        }
        cases.insert(id.case, Case::new(at.line, end, transport, pools));
    }

    /// The apps of a test case with their shares of its sessions: one, or those of an IMIX group.
    pub fn apps_of<'a>(&'a self, case: &'a Case) -> Vec<(Option<u32>, &'a App, u32)> {
        let App::Imix(imix) = &case.app else { return vec![(None, &case.app, 1)] };
        let apps = self.mixes.get(imix).map_or(&[][..], Vec::as_slice);
        let apps = apps.iter().filter_map(|index| Some((index, self.apps.get(index)?)));
        apps.filter_map(|(index, entry)| {
            let app = entry.app.as_ref()?;
            (entry.weight > 0).then_some((Some(*index), app, entry.weight))
        })
        .collect()
    }
}

/// What a test case is told.
fn set(case: &mut Case, setting: Setting, at: &mut At<'_, '_, '_>) -> Result<(), ScriptError> {
    match setting {
        Setting::Timeout(Timeout::Init, value) => case.init = value,
        Setting::Timeout(Timeout::Uptime, value) => case.uptime = value,
        Setting::Timeout(Timeout::Downtime, value) => case.downtime = value,
        Setting::Rate(..) if case.end == End::Server => {
            at.leave_out("clients have rates, and this test case is of servers");
        }
        Setting::Rate(RateOf::Open, value) => case.open = value,
        Setting::Rate(RateOf::Close, value) => case.close = value,
        Setting::Rate(RateOf::Send, value) => case.send = value,
        Setting::Criterion(criterion, value) => {
            if criterion == Criterion::Data {
                at.leave_out("WARP17 knows the word, and does not measure it");
            } else {
                case.criterion = Some((at.line.clone(), (criterion, value)));
            }
        }
        Setting::Async(is_async) => case.is_async = is_async,
        Setting::Tcp(option, value) => {
            if let Some(why) = set_tcp(case, option, value) {
                at.leave_out(why);
            }
        }
        Setting::Tos(tos) => {
            case.tos = tos;
            if tos & 3 != 0 {
                at.leave_out(
                    "the DSCP is carried over, the two bits of ECN are not: our TCP sets them where both ends agreed on it (tcp: { ecn: \
                     true })",
                );
            }
        }
        Setting::Stamps(false) => {}
        Setting::Stamps(true) => {
            case.is_stamped = true;
            at.leave_out(STAMPS);
        }
        // told with its group
        Setting::Latency { max, average } => {
            let (line, text) = (at.line.clone(), at.text.clone());
            case.latency = Some(Latency { line, text, max, average });
        }
        Setting::Vlan { id, priority } => {
            case.vlan = id;
            if priority != 0 {
                at.leave_out("the VLAN is carried over; its priority is always 0");
            }
        }
        Setting::Imix(imix) => {
            case.app = App::Imix(imix);
            case.app_line = at.line.clone();
        }
        Setting::App(end, app) => {
            if end != case.end {
                at.leave_out("the test case is of the other end, and WARP17 refuses it");
                return Ok(());
            }
            if matches!(app, AppSetting::Raw { stamps: true, .. }) {
                case.is_stamped = true;
            }
            tell(&mut case.app, end, app, at)?;
            case.app_line = at.line.clone();
        }
    }
    Ok(())
}

const STAMPS: &str =
    "packets bear no times: response times are measured where requests and responses are";

/// What an application is told.
fn tell(
    app: &mut App,
    end: End,
    setting: AppSetting,
    at: &mut At<'_, '_, '_>,
) -> Result<(), ScriptError> {
    if let AppSetting::Raw { request, response, stamps } = setting {
        if stamps {
            at.leave_out(STAMPS);
        }
        *app = App::Raw { request, response };
        return Ok(());
    }
    let mut http = match std::mem::replace(app, App::Raw { request: 0, response: 0 }) {
        App::Http(http) => http,
        _ => Box::default(),
    };
    match setting {
        AppSetting::Raw { .. } => {}
        AppSetting::Request { method, host, object, body } => {
            let visible = |text: &str| text.bytes().all(|byte| (0x21..0x7f).contains(&byte));
            if !visible(&host) || host.len() > 255 || !visible(&object) || object.len() > 7999 {
                return Err(at.line.wrong(fault!(
                    "a host and an object have visible characters of ASCII, and 255 and 7999 of them at most";
                    "write for example 'GET www.example.com /index.html req-size 0'"
                )));
            }
            if !object.starts_with('/') {
                at.leave_out("a target begins with '/', which stands before the object now");
            }
            http.target = if object.starts_with('/') { object } else { format!("/{object}") };
            http.method = method;
            http.host = Some(host).filter(|host| !host.is_empty());
            http.body = Some(Bytes::new(body.into())).filter(|body| body.get() > 0);
        }
        AppSetting::Response { status, size } => {
            http.status = std::num::NonZeroU16::new(status).filter(|status| status.get() != 200);
            http.size = Bytes::new(size.into()).into();
        }
        AppSetting::Field(field) => {
            let headers =
                if end == End::Server { &mut http.response_headers } else { &mut http.headers };
            match header(&field) {
                Ok((name, value)) if headers.keys().all(|key| !key.eq_ignore_ascii_case(name)) => {
                    if headers.len() < HEADERS {
                        headers.insert(name.to_owned(), value.to_owned());
                    } else {
                        at.leave_out(format!("a message has at most {HEADERS} headers of yours"));
                    }
                }
                Ok(_) => {
                    at.leave_out("each header is sent once, and the first one of this name holds")
                }
                Err(why) => at.leave_out(why),
            }
        }
    }
    *app = App::Http(http);
    Ok(())
}

/// The most headers of one's own.
const HEADERS: usize = 64;

/// The name and the value of a header, as the language takes them.
fn header(field: &str) -> Result<(&str, &str), &'static str> {
    const OWN: [&str; 6] =
        ["host", "content-length", "transfer-encoding", "connection", "expect", "trailer"];
    let (name, value) = field.split_once(':').ok_or("a header is a name, ':' and a value")?;
    let (name, value) = (name.trim(), value.trim());
    let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
    if name.is_empty() || name.len() > 255 || !name.chars().all(token) {
        return Err("this is not the name of a header (RFC 9110 §5.1)");
    }
    if OWN.iter().any(|own| own.eq_ignore_ascii_case(name)) {
        return Err("this header follows from what is sent, and is not written by hand");
    }
    let allowed = |c: char| c == '\t' || (' '..='~').contains(&c);
    match value.len() <= 4000 && value.chars().all(allowed) {
        true => Ok((name, value)),
        false => Err("the value of a header has at most 4000 characters of ASCII"),
    }
}

/// How often a SYN is repeated at most (`TcpSpec::syn_retries`).
const SYN_RETRIES: u32 = 127;

/// What is asked of TCP; gives the reason where it is not carried over, or not quite.
fn set_tcp(case: &mut Case, option: TcpOption, value: u32) -> Option<&'static str> {
    if case.transport == Transport::Udp {
        return Some("the test case is over UDP");
    }
    let tcp = &mut case.tcp;
    let repeats = value.min(SYN_RETRIES) as u8;
    let time = Some(Nanos::from_millis(value.into())).filter(|time| *time > Nanos::ZERO);
    match option {
        TcpOption::WinSize if value < 1024 => {
            return Some("a receive window has 1024 bytes at least");
        }
        TcpOption::WinSize => {
            tcp.receive_buffer = Some(Bytes::new(value.into()));
            tcp.window_scaling = Some(false);
        }
        TcpOption::SynRetry if case.end == End::Server => {
            return Some("servers send no SYN of their own");
        }
        TcpOption::SynAckRetry if case.end != End::Server => return Some("clients answer no SYN"),
        TcpOption::SynRetry | TcpOption::SynAckRetry => {
            tcp.syn_retries = Some(repeats);
            if value > SYN_RETRIES {
                return Some("a SYN is repeated 127 times at most, and so it is here");
            }
        }
        TcpOption::DataRetry => tcp.data_retries = Some(value.min(255) as u8),
        TcpOption::Retry => {
            return Some(
                "a FIN is repeated as often as data ('data-retries'), a SYN as 'syn-retries' says",
            );
        }
        TcpOption::Rto if time.is_none() => return Some("a timeout is 1ms at least"),
        // it is always the same: WARP17 measures no round trips and does not double it
        TcpOption::Rto => {
            tcp.rto.initial = time;
            tcp.rto.min = time;
            tcp.rto.max = time;
        }
        TcpOption::FinTimeout if time.is_none() => return Some("a timeout is 1ms at least"),
        TcpOption::FinTimeout => tcp.fin_timeout = time,
        TcpOption::TimeWait => tcp.time_wait = Some(Nanos::from_millis(value.into())),
        TcpOption::OrphanTimeout => {
            return Some(
                "a FIN that is not acknowledged is repeated as often as 'data-retries' says",
            );
        }
        TcpOption::SkipTimeWait => case.skips_time_wait = value == 1,
        TcpOption::AckDelay => {
            tcp.delayed_ack = (value == 0).then_some(Nanos::ZERO);
        }
    }
    None
}
