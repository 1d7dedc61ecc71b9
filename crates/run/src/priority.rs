//! How much the threads of a run ask for, and whether they may have it: found out before anything is sent.

use std::thread;

use wirebeat_engine_linux::scheduling::{Priority, realtime_refusal};
use wirebeat_traffic::scenario::PriorityChoice;
use wirebeat_units::fault;

use crate::error::RunError;
use crate::placement::Placement;

/// What a scenario asks for.
pub(crate) fn of(choice: PriorityChoice) -> Priority {
    match choice {
        PriorityChoice::Normal => Priority::Normal,
        PriorityChoice::High => Priority::High,
        PriorityChoice::Realtime => Priority::Realtime,
    }
}

/// That real time is permitted where it is asked for, and of use: two real-time threads on one CPU take it from each other.
pub(crate) fn check(priority: Priority, placement: &Placement) -> Result<(), RunError> {
    if priority != Priority::Realtime {
        return Ok(());
    }
    if let Some((cpu, senders)) = placement.shared() {
        return Err(RunError::usage(fault!(
            "{senders} sending threads share CPU {cpu} (affinity), and real time would keep \
             each from it while another has it";
            "give 'cores' or fewer 'queues', so that each has a CPU of its own, or use \
             priority 'high'"
        )));
    }
    permitted()
}

/// That real time is permitted here.
pub(crate) fn permitted() -> Result<(), RunError> {
    // the system refuses it for a thread, whatever the thread is for: it is asked by one that does nothing else
    let refusal = thread::scope(|scope| scope.spawn(realtime_refusal).join());
    match refusal {
        Ok(None) => Ok(()),
        Ok(Some(why)) => Err(RunError::machine(format!("real time is not permitted here: {why}"))),
        Err(_) => Err(RunError::machine("the test of real time panicked".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::{Demand, place};

    #[test]
    fn real_time_is_refused_where_senders_share_a_cpu() {
        let demand = Demand { name: "a".to_owned(), senders: 2, ..Demand::default() };
        let crowded = place(&[demand], &[3]);
        let error = check(Priority::Realtime, &crowded).unwrap_err();
        assert!(
            error.to_string().starts_with("2 sending threads share CPU 3 (affinity)"),
            "{error}"
        );
        assert_eq!(error.exit_code(), 2);
        assert!(check(Priority::High, &crowded).is_ok());
    }
}
