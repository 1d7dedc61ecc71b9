//! When test cases start and end. Those of a port start one after the other, by their numbers: each when the one before has passed or
//! failed, or at once where that one is asynchronous.

use std::collections::BTreeMap;

use wirebeat_traffic::scenario::RunSpec;
use wirebeat_units::Nanos;

use super::command::{Criterion, End};
use super::setup::{Case, EthPort};
use crate::draft::Draft;

/// When WARP17 gives a test case up that did not pass (GCFG_TEST_MAX_TC_RUNTIME).
const FAILS_AFTER: Nanos = Nanos::from_secs(600);
/// What sessions have to be established in, where nothing limits how fast they open, and more where something does.
const ESTABLISHING: Nanos = Nanos::from_secs(1);

/// When the clients of a test case start and end.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    /// When the first session is due.
    pub start: Nanos,
    /// When the test case ends; `None`: with the run.
    pub stop: Option<Nanos>,
    /// The test case of the same port, so many of whose sessions are to be established: `start` and `stop` count from then on.
    pub after: Option<(u32, u32)>,
    /// When that is about, from the start of the run.
    pub base: Nanos,
    /// How many sessions have to be established, so that it has passed.
    pub established: Option<u32>,
    /// How long it takes to open all sessions, at the rate that is written.
    pub opening: Nanos,
}

/// Where a sequence of test cases is.
#[derive(Clone, Copy)]
struct Cursor {
    /// From when `after` is, or from the start of the run.
    at: Nanos,
    after: Option<(u32, u32)>,
    base: Nanos,
    never: bool,
}

/// The plans of the test cases of clients of a port, by their numbers.
pub(super) fn plans(port: &EthPort, draft: &mut Draft<'_>) -> BTreeMap<u32, Plan> {
    let mut cursor = Cursor { at: Nanos::ZERO, after: None, base: Nanos::ZERO, never: false };
    let mut plans = BTreeMap::new();
    for (&number, case) in &port.cases {
        let here = cursor;
        let (stop, next) = match case.end {
            End::Server => (None, after_servers(case, here, draft)),
            _ => after_clients((number, case), here, draft),
        };
        if !case.is_async {
            cursor = next;
        }
        if case.end == End::Server {
            continue;
        }
        let mut leave_out = |why: &str| {
            draft.leave_out(&case.line, &format!("test case {number}"), why);
        };
        let start = match case.init {
            _ if here.never => {
                leave_out("the test case before it never ends, so WARP17 does not start it");
                continue;
            }
            None => {
                leave_out("its clients wait for ever before they start ('init infinite')");
                continue;
            }
            Some(init) => here.at.saturating_add(Nanos::from_secs(init.into())),
        };
        if stop.is_some_and(|stop| stop <= start) {
            leave_out("it ends before its clients start");
            continue;
        }
        let established = match case.criterion {
            Some((_, (Criterion::ClientsEstablished, count))) if stop.is_none() && count > 0 => {
                Some(count)
            }
            _ => None,
        };
        let opening = opening_time(case, case.sessions());
        let Cursor { after, base, .. } = here;
        plans.insert(number, Plan { start, stop, after, base, established, opening });
    }
    plans
}

/// How long so many sessions take to open, at the rate that is written.
fn opening_time(case: &Case, sessions: u64) -> Nanos {
    Nanos::from_secs(case.open.map_or(0, |open| sessions / u64::from(open.max(1))))
}

/// What comes after a test case of servers.
fn after_servers(case: &Case, here: Cursor, draft: &mut Draft<'_>) -> Cursor {
    let Some((line, (criterion, count))) = &case.criterion else { return here };
    match criterion {
        Criterion::RunTime => {
            Cursor { at: here.at.saturating_add(Nanos::from_secs((*count).into())), ..here }
        }
        Criterion::ServersUp if u64::from(*count) > case.sessions() => {
            let why = "there are fewer servers, and WARP17 says FAILED after 10 minutes; the next test case starts then";
            draft.leave_out(line, &format!("servers-up {count}"), why);
            Cursor { at: here.at.saturating_add(FAILS_AFTER), ..here }
        }
        // all of them listen before the first client starts
        Criterion::ServersUp => here,
        Criterion::ClientsUp | Criterion::ClientsEstablished | Criterion::Data => {
            draft.leave_out(line, "criteria", "it is of clients, and the test case is of servers");
            here
        }
    }
}

/// When a test case of clients stops, and what comes after it.
fn after_clients(
    (number, case): (u32, &Case),
    here: Cursor,
    draft: &mut Draft<'_>,
) -> (Option<Nanos>, Cursor) {
    let fails = here.at.saturating_add(FAILS_AFTER);
    match &case.criterion {
        // WARP17's own is 600,000,000 s
        None | Some((_, (Criterion::Data, _))) => (None, Cursor { never: true, ..here }),
        Some((_, (Criterion::RunTime, seconds))) => {
            let stop = here.at.saturating_add(Nanos::from_secs((*seconds).into()));
            (Some(stop), Cursor { at: stop, ..here })
        }
        Some((line, (Criterion::ServersUp | Criterion::ClientsUp, _))) => {
            let why = "WARP17 ends the test case at once, before its clients connect; here it goes on, and the next one starts with it";
            draft.leave_out(line, "criteria", why);
            (None, here)
        }
        Some((line, (Criterion::ClientsEstablished, count)))
            if u64::from(*count) > case.sessions() =>
        {
            let why = format!(
                "the test case has {} sessions, and WARP17 says FAILED after 10 minutes: it ends then",
                case.sessions()
            );
            draft.leave_out(line, &format!("clients-estab {count}"), why);
            (Some(fails), Cursor { at: fails, ..here })
        }
        Some((_, (Criterion::ClientsEstablished, 0))) => (None, here),
        Some((line, (Criterion::ClientsEstablished, count))) => {
            let why = "it is an expectation, and when the test case stops and the next one of the port starts; WARP17 gives up the sessions \
                       that are open then, and here they end with the response that comes next";
            draft.leave_out(line, &format!("clients-estab {count}"), why);
            let init = Nanos::from_secs(case.init.unwrap_or(0).into());
            let lasts = init.saturating_add(opening_time(case, (*count).into()));
            let base = here.base.saturating_add(here.at).saturating_add(lasts);
            let base = base.saturating_add(ESTABLISHING);
            (None, Cursor { at: Nanos::ZERO, after: Some((number, *count)), base, never: false })
        }
    }
}

/// When the run ends: sessions that never close would go on without end. What no criterion ends by a time has [`RunSpec::DEFAULT_TIME`]
/// after its last session opened.
pub(super) fn run_time<'a>(plans: impl Iterator<Item = &'a Plan>) -> Option<Nanos> {
    let end = |plan: &Plan| {
        let of_itself =
            || plan.start.saturating_add(plan.opening).saturating_add(RunSpec::DEFAULT_TIME);
        plan.base.saturating_add(plan.stop.unwrap_or_else(of_itself))
    };
    plans.map(end).max()
}
