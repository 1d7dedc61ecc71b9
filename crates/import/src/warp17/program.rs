//! What sessions say: the applications of WARP17 as programs.

use std::num::NonZeroU32;

use wirebeat_traffic::scenario::departures::Duration;
use wirebeat_traffic::scenario::session::program::{Bulk, Exchange, Http, Messages, Step, Steps};
use wirebeat_traffic::scenario::session::{ProgramSpec, Transport};
use wirebeat_units::{Bytes, Nanos};

use super::setup::{App, Case};

/// Bytes of a message one way that are its number and times.
const STAMP: u32 = wirebeat_traffic::values::session::STAMP as u32;

/// What sessions of a test case do.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Work {
    /// How many requests a session has.
    pub requests: NonZeroU32,
    /// How long it is from a message one way to the next.
    pub gap: Option<Nanos>,
    /// For how long a session sends; `None`: for ever.
    pub time: Option<Nanos>,
    /// Whether the responses are those of a server of this file.
    pub answered: bool,
}

impl Work {
    /// Of the clients of a test case with so many sessions.
    pub fn of(case: &Case, sessions: u64, answered: bool) -> Work {
        let uptime = uptime(case);
        let requests = match (uptime, case.send) {
            (None, _) => u32::MAX,
            // nothing says how many a session has time for
            (Some(_), None) => 1,
            (Some(seconds), Some(rate)) => {
                let all = u64::from(rate).saturating_mul(seconds.into());
                u32::try_from(all / sessions.max(1)).unwrap_or(u32::MAX).max(1)
            }
        };
        let gap = case.send.filter(|rate| *rate > 0).map(|rate| {
            let all = u128::from(sessions) * 1_000_000_000 / u128::from(rate);
            Nanos::new(u64::try_from(all).unwrap_or(u64::MAX).clamp(1, DAY.get()))
        });
        let time = uptime.map(|seconds| Nanos::from_secs(seconds.into()));
        Work { requests: NonZeroU32::new(requests).unwrap_or(NonZeroU32::MIN), gap, time, answered }
    }

    /// Of servers that answer whatever comes.
    pub fn endless(answered: bool) -> Work {
        Work { requests: NonZeroU32::MAX, gap: None, time: None, answered }
    }
}

/// The longest time that is written for what never ends.
pub(super) const DAY: Nanos = Nanos::from_secs(24 * 3600);

/// How long sessions stay open: for ever, too, where none may close.
pub(super) fn uptime(case: &Case) -> Option<u32> {
    case.uptime.filter(|_| case.close != Some(0))
}

/// Whether clients say nothing.
pub(super) fn is_idle(case: &Case, app: &App) -> bool {
    matches!(app, App::Raw { request: 0, .. }) || case.send == Some(0) || uptime(case) == Some(0)
}

/// What clients say and servers of ours answer: `server` has the responses of HTTP, where they are known. `None`: nothing is sent.
pub(super) fn of_clients(
    (case, app): (&Case, &App),
    server: Option<&App>,
    work: &Work,
) -> Option<ProgramSpec> {
    let is_udp = case.transport == Transport::Udp;
    if is_idle(case, app) {
        return (!is_udp).then(idle);
    }
    match app {
        App::Raw { request, response } => Some(raw((*request, *response), is_udp, work)),
        App::Http(http) => {
            let mut http = Http { requests: work.requests, ..(**http).clone() };
            if let Some(App::Http(of)) = server {
                http.status = of.status;
                http.size = of.size.clone();
                http.response_headers = of.response_headers.clone();
                // the server means it
                http.expect_status = of.status;
            }
            Some(ProgramSpec::Http(Box::new(http)))
        }
        App::Imix(_) => None,
    }
}

/// What servers say whose clients are of another group, or somebody else's.
pub(super) fn of_servers(case: &Case, app: &App, work: &Work) -> Option<ProgramSpec> {
    let is_udp = case.transport == Transport::Udp;
    match app {
        // they take what comes, until the client closes
        App::Raw { request: 0, .. } | App::Raw { response: 0, .. } if !is_udp => {
            Some(ProgramSpec::Bulk(Box::<Bulk>::default()))
        }
        App::Raw { request: 0, .. } => None,
        App::Raw { request, response } => Some(raw((*request, *response), is_udp, work)),
        App::Http(http) => Some(ProgramSpec::Http(http.clone())),
        App::Imix(_) => None,
    }
}

/// Requests and responses of these lengths.
fn raw((request, response): (u32, u32), is_udp: bool, work: &Work) -> ProgramSpec {
    let bytes = |length: u32| Bytes::new(length.into());
    if is_udp && response == 0 {
        let usual = Messages::default();
        return ProgramSpec::Messages(Box::new(Messages {
            size: bytes(request.max(STAMP)).into(),
            gap: work.gap.map_or(usual.gap.clone(), Duration::Fixed),
            time: work.time,
            ..usual
        }));
    }
    ProgramSpec::RequestResponse(Box::new(Exchange {
        request: bytes(request).into(),
        response: bytes(response).into(),
        requests: work.requests,
        think: None,
        numbers: !is_udp || work.answered,
    }))
}

/// A connection on which nothing is said.
fn idle() -> ProgramSpec {
    let steps = Steps { client: Vec::new(), server: vec![Step::WaitClose] };
    ProgramSpec::Steps(Box::new(steps))
}

/// What is not as it is in WARP17, for a notice.
pub(super) fn deviation(case: &Case, app: &App, work: &Work) -> Option<String> {
    let uptime = uptime(case).filter(|_| !is_idle(case, app));
    let is_udp = case.transport == Transport::Udp;
    match (app, uptime) {
        (App::Raw { request, response: 0 }, _) if is_udp => {
            let gap = match work.gap {
                Some(_) => String::new(),
                None => {
                    ", 10ms apart, since nothing is as fast as can be that has a plan: write 'gap'"
                        .to_owned()
                }
            };
            let size = match *request < STAMP {
                true => format!("; they have {STAMP} bytes, for their number and times"),
                false => String::new(),
            };
            (!gap.is_empty() || !size.is_empty())
                .then(|| format!("requests without responses are 'messages'{gap}{size}"))
        }
        (_, Some(seconds)) if case.send.is_none() => Some(format!(
            "WARP17 sends one request after the other for {seconds}s; a session here has one and stays open for as long: write 'requests' \
             for more"
        )),
        _ => None,
    }
}
