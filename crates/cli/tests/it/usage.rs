//! Every wrong argument gets one message with what, where and how to mend it, and exit code 2.

use crate::{Scratch, line, run};

/// A command line, and what it is told.
const WRONG: &[(&str, &str)] =
    &[("snd", "error: there is no command 'snd'\n  hint: did you mean 'send'?\n")];

#[test]
fn every_wrong_argument_is_told_what_where_and_how() {
    for (arguments, message) in WRONG {
        let ended = line(arguments);
        assert_eq!(ended.err, *message, "{arguments}");
        assert_eq!((ended.code, ended.out.as_str()), (2, ""), "{arguments}");
    }
}
