//! The kernel engine: eBPF programs send and meter before the stack.

mod bare_limit;
mod mapped;
mod skeletons;
mod test_run;

pub use bare_limit::{BareLimit, bare_limit};
