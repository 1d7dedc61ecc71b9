//! What has to come of a run, from the command line: `--expect`.

use clap::Args;
use wirebeat_traffic::scenario::ScopedExpectation;

/// What is expected of flows, or of what a scenario has.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Report")]
pub struct ExpectArgs {
    /// What has to come of it: 'loss <= 0.01%'; exit code 4 otherwise
    ///
    /// Given once for each: 'loss <= 0.01%', 'voice: delay.p99 < 1ms', 'interval.rate.received >= 90kpps'; of sessions 'failed <= 1%',
    /// 'response.p99 < 5ms', 'rate.goodput >= 1Gbps'. A word that there is not is answered with the one that is meant, or with all of
    /// them; docs/expectations.md describes each.
    #[arg(long, value_name = "EXPECTATION")]
    pub expect: Vec<ScopedExpectation>,
    #[command(flatten)]
    pub abort: AbortArgs,
}

/// What happens when it does not come.
#[derive(Args, Clone, Copy, Debug, Default)]
#[command(next_help_heading = "Report")]
pub struct AbortArgs {
    /// End as soon as the run cannot pass any more, as far as intervals say so; rates are judged at the end
    ///
    /// That is when an interval breaks an expectation on intervals, such as 'interval.loss <= 1%', or all of them together an upper limit of sessions,
    /// such as 'failed == 0', or the time one on 'duration'. Where none of these is expected, this is said before the run.
    #[arg(long, hide_short_help = true)]
    pub abort_on_fail: bool,
}
