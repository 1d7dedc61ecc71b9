//! The exit codes of the program: one table, from which help, manual and documentation are held.
//!
//! A command ends with one code. Where several are true, the first of 1, 4, 5 counts ([`Exit::and`]): that a result
//! is incomplete or wrong matters more than that it breaks an expectation, and both more than where it was written.

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Exit {
    /// It did what it was asked to do.
    Done,
    /// It ran and did not finish, or its counters are inconsistent.
    Unfinished,
    /// The command line or the scenario is wrong.
    Usage,
    /// This machine cannot do it, or the other one.
    Machine,
    /// It is done and its counters are consistent, and an expectation was not met.
    Unmet,
    /// An output could not be written.
    Output,
}

impl Exit {
    /// Every code with its meaning, in the order of the numbers.
    pub const TABLE: [(Exit, &'static str); 6] = [
        (Exit::Done, "done"),
        (Exit::Unfinished, "unfinished: cut off, or its counters are inconsistent; see the report"),
        (Exit::Usage, "wrong usage: the command line or the scenario is wrong; nothing was sent"),
        (Exit::Machine, "this machine, or the other one, cannot do it; nothing was sent"),
        (Exit::Unmet, "an expectation was not met; see the report"),
        (Exit::Output, "an output could not be written; the other outputs have the result"),
    ];

    /// The number that the process ends with.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The graver of two: 2 and 3 mean that nothing ran, then 1 before 4 before 5.
    pub fn and(self, other: Exit) -> Exit {
        const ORDER: [Exit; 6] =
            [Exit::Usage, Exit::Machine, Exit::Unfinished, Exit::Unmet, Exit::Output, Exit::Done];
        ORDER.into_iter().find(|exit| [self, other].contains(exit)).unwrap_or(Exit::Done)
    }

    /// The exit of this number; `None` where no command ends with it.
    pub fn of(code: u8) -> Option<Exit> {
        Exit::TABLE.iter().map(|(exit, _)| *exit).find(|exit| exit.code() == code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_the_order_of_its_numbers() {
        let codes = Exit::TABLE.iter().map(|(exit, _)| exit.code());
        assert!(codes.eq(0..6));
        assert_eq!((Exit::of(5), Exit::of(6)), (Some(Exit::Output), None));
    }

    #[test]
    fn one_comes_before_four_before_five() {
        for (one, other, both) in [
            (Exit::Done, Exit::Output, Exit::Output),
            (Exit::Output, Exit::Unmet, Exit::Unmet),
            (Exit::Output, Exit::Unfinished, Exit::Unfinished),
            (Exit::Unmet, Exit::Unfinished, Exit::Unfinished),
            (Exit::Done, Exit::Done, Exit::Done),
            (Exit::Machine, Exit::Output, Exit::Machine),
        ] {
            assert_eq!((one.and(other), other.and(one)), (both, both));
        }
    }
}
