//! Running a program in the kernel with live frames: `BPF_PROG_TEST_RUN` with
//! `BPF_F_TEST_XDP_LIVE_FRAMES` (Linux 5.18), documented in the kernel's `Documentation/bpf/bpf_prog_run.rst`.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::{io, ptr};

/// One call: the program runs `repeat` times on pages that begin as copies of `frame`, and what it
/// redirects is flushed after each `batch` runs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call<'a> {
    pub(crate) frame: &'a [u8],
    pub(crate) repeat: u32,
    pub(crate) batch: u32,
}

/// Makes the call on the calling thread's CPU. `Interrupted` when a signal came between two batches.
pub(crate) fn run(program: BorrowedFd<'_>, call: Call<'_>) -> io::Result<()> {
    // SAFETY: an all-zero `bpf_test_run_opts` is valid: null pointers with zero sizes.
    let mut options: libbpf_sys::bpf_test_run_opts = unsafe { std::mem::zeroed() };
    options.sz = size_of_val(&options) as u64;
    options.data_in = call.frame.as_ptr().cast();
    options.data_size_in = call.frame.len() as u32;
    options.ctx_in = ptr::null();
    options.repeat = call.repeat as i32;
    options.flags = libbpf_sys::BPF_F_TEST_XDP_LIVE_FRAMES;
    options.batch_size = call.batch;
    // SAFETY: `options` is complete and `data_in` is readable for `data_size_in` bytes; the kernel
    // only reads it.
    let result = unsafe { libbpf_sys::bpf_prog_test_run_opts(program.as_raw_fd(), &mut options) };
    if result < 0 { Err(io::Error::from_raw_os_error(-result)) } else { Ok(()) }
}
