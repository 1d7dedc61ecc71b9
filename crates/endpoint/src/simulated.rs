//! Both ends of a cable on one thread and a virtual clock: a run takes no time, and is the same every time.

use wirebeat_converse::Converse;
use wirebeat_converse::stack::Stack;
use wirebeat_engine::clock::{Clock, Wait};
use wirebeat_engine::loopback::VirtualClock;
use wirebeat_units::Nanos;

use crate::OwnStack;
use crate::cable::{Cable, CableRx, CableTx};

/// Turns at one time, after which the clock moves all the same: nobody keeps a run from its end.
const TURNS_MAX: u32 = 1000;
/// How far it moves then.
const TICK: Nanos = Nanos::from_micros(1);

/// The loop of an end of a cable.
pub type OnCable = Converse<OwnStack<CableTx, CableRx, VirtualClock>>;

/// Does at all `ends` what is due, until nothing is due any more; then moves the clock to what happens next, at most to `until`.
/// `next_of` says when a stack does something by itself ([`OwnStack::next_time`], with whatever lies over it). Returns the new time.
pub fn step<S: Stack>(
    ends: &mut [Converse<S>],
    next_of: impl Fn(&S, Nanos) -> Option<Nanos>,
    (cable, clock): (&Cable, &VirtualClock),
    until: Nanos,
) -> Nanos {
    let now = clock.of_onlooker().now();
    for _ in 0..TURNS_MAX {
        let mut next = until;
        for end in &mut *ends {
            end.turn(now, now);
        }
        for end in &*ends {
            let times = [end.next_time(now), next_of(&end.stack, now)];
            next = times.into_iter().flatten().fold(next, Nanos::min);
        }
        next = cable.next_arrival().into_iter().fold(next, Nanos::min);
        if next > now || until <= now {
            let next = next.max(now);
            clock.wait_until(next, Wait::Sleep);
            return next;
        }
    }
    let next = now.saturating_add(TICK);
    clock.wait_until(next, Wait::Sleep);
    next
}
