//! Whether the process was started with a standard output.
//!
//! Rust opens `/dev/null` in the place of standard streams that are closed, before `main`. From then on nothing tells a
//! closed one (`>&-`) from one that goes to `/dev/null` for reading and writing, as programs in Python and Node.js give it
//! to their children. So it is looked at earlier: when the C runtime calls the functions in `.init_array`.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

static OPEN: AtomicBool = AtomicBool::new(true);

extern "C" fn look() {
    // SAFETY: it takes no pointer and changes nothing.
    let flags = unsafe { libc::fcntl(libc::STDOUT_FILENO, libc::F_GETFD) };
    OPEN.store(flags >= 0, Ordering::Relaxed);
}

/// Called before `main`, by one thread; needs nothing that Rust sets up.
// SAFETY: the section holds functions of the C ABI, which are called with arguments that this one does not look at.
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Whether standard output was open when the process was started.
pub fn was_open() -> bool {
    // so that the linker keeps it
    black_box(&LOOK);
    OPEN.load(Ordering::Relaxed)
}
