//! Starts that come faster than they can happen.

use wirebeat_traffic::compile::{Files, compile_sessions};
use wirebeat_traffic::scenario::Scenario;
use wirebeat_traffic::schedule::Shard;
use wirebeat_units::Nanos;

use super::memory::Memory;
use crate::stack::{Action, Programs, Stack};
use crate::{Converse, Waiting};

/// When runs begin on the virtual clock.
const BEGIN: Nanos = Nanos::from_secs(1);

/// A stack that is never done, and counts its turns.
struct Behind {
    memory: Memory,
    turns: usize,
}

impl Stack for Behind {
    fn apply(&mut self, now: Nanos, action: Action, programs: &mut dyn Programs) {
        self.memory.apply(now, action, programs);
    }
    fn turn(&mut self, now: Nanos, until: Nanos, programs: &mut dyn Programs) -> Nanos {
        self.turns += 1;
        self.memory.turn(now, until, programs)
    }
    fn is_behind(&self) -> bool {
        true
    }
    fn open(&self) -> usize {
        self.memory.open()
    }
}

/// The clients of two groups with these starts, on a core.
fn converse(starts: [&str; 2], core: Shard) -> Converse<Behind> {
    let [x, y] = starts;
    let servers = "servers: { addresses: 10.0.2.9, ports: 80 }, program: http";
    let text = format!(
        "ports: {{ a: {{}} }}\nsessions:\n  x: {{ from: a, {servers}, {x} }}\n  y: {{ from: a, {servers}, {y} }}\n"
    );
    let scenario = Scenario::from_yaml(&text, "").unwrap_or_else(|error| panic!("{error}"));
    let sessions = compile_sessions(&scenario, &Files::default()).unwrap();
    let stack = Behind { memory: Memory::new(1448), turns: 0 };
    Converse::new(&sessions, core, stack, BEGIN, None, Waiting::Sleep)
}

#[test]
fn open_sessions_have_turns_while_starts_are_late() {
    let mut late = converse(["rate: 1000000/s", "rate: 1/s, start: 9s"], Shard::WHOLE);
    late.turn(BEGIN.saturating_add(Nanos::from_millis(10)), BEGIN);
    // 64 starts, of which each four have a turn, and the one that each turn has
    assert_eq!((late.stack.turns, late.stack.open()), (17, 64));
    let mut on_time = converse(["rate: 1/s", "rate: 1/s, start: 9s"], Shard::WHOLE);
    on_time.turn(BEGIN, BEGIN);
    assert_eq!((on_time.stack.turns, on_time.stack.open()), (1, 1));
}

#[test]
fn starts_that_did_not_happen_are_counted_as_expired() {
    let cases = [
        // to the start: a few of a steady rate
        (["rate: 1000/s", "rate: 500/s, start: 1s"], [2000.0, 500.0], 0.0),
        (["rate: 1000/s, departures: poisson", "rate: 500/s"], [2000.0, 1000.0], 0.1),
        // more than are counted one by one
        (["rate: 100000000/s", "rate: 1000/s"], [2e8, 2000.0], 0.05),
    ];
    for (starts, expected, share) in cases {
        for cores in [1, 2] {
            let mut sums = [0; 2];
            for core in 0..cores {
                let mut converse = converse(starts, Shard { core, cores });
                let looked = BEGIN.saturating_add(Nanos::from_secs(2));
                converse.turn(looked, looked);
                // what becomes due behind the last look is not of the run
                converse.close_all(looked.saturating_add(Nanos::from_secs(1)));
                for ((_, _, summary), sum) in converse.programs.summaries().iter().zip(&mut sums) {
                    let counts = &summary.counts;
                    assert_eq!(counts.due, counts.opened + counts.expired);
                    assert_eq!(counts.expired, counts.expired_late, "nothing is limited");
                    assert!(counts.opened < counts.expired / 4, "{counts:?}");
                    *sum += counts.due;
                }
            }
            for (sum, expected) in sums.into_iter().zip(expected) {
                let off = (sum as f64 - expected).abs() / expected;
                assert!(off <= share, "{starts:?} on {cores}: {sum} of {expected}");
            }
        }
    }
}
