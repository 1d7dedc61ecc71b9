//! The clocks of cards (`/dev/ptp*`), which tests set and make run fast or slow, and a register of an emulated card. No safe
//! crate takes such clocks, so this file holds `unsafe` blocks.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Modes of `clock_adjtime` (`linux/timex.h`).
const ADJ_FREQUENCY: libc::c_uint = 0x0002;
const ADJ_SETOFFSET: libc::c_uint = 0x0100;

/// Moves the clock `/dev/ptp` with this number by so many seconds, and has it gain so much: in millionths.
///
/// # Errors
/// The system's.
#[allow(unsafe_code, reason = "clock_adjtime has no safe wrapper")]
pub fn disturb_card_clock(number: u32, seconds: i64, gain_ppm: i64) -> io::Result<()> {
    let clock = File::options().read(true).write(true).open(format!("/dev/ptp{number}"))?;
    // FD_TO_CLOCKID of linux/posix-timers.h
    let id = (!clock.as_raw_fd() << 3) | 3;
    // SAFETY: plain integers, for which zero is a value.
    let mut change: libc::timex = unsafe { std::mem::zeroed() };
    change.modes = ADJ_SETOFFSET;
    change.time.tv_sec = seconds;
    // SAFETY: as above.
    let mut gain: libc::timex = unsafe { std::mem::zeroed() };
    gain.modes = ADJ_FREQUENCY;
    // in 2^-16 millionths
    gain.freq = gain_ppm << 16;
    for asked in [&mut change, &mut gain] {
        // SAFETY: an open clock, and a request that lives through the call.
        if unsafe { libc::clock_adjtime(id, asked) } < 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

/// Bytes of an igb's registers, and RXSATRH among them: the end of the source of the last PTP message (82576 datasheet).
const REGISTERS: usize = 128 << 10;
const RXSATRH: usize = 0xb630;
/// How often it is read.
const EVERY: Duration = Duration::from_millis(1);

/// Has an emulated igb go on stamping received frames, until this is dropped. A card holds one stamp until that is read; the
/// emulator (QEMU 10) holds it until another register is read, which the driver never does, so that there would be one stamp
/// after each reset. Needs the kernel's option `iomem=relaxed`.
#[derive(Debug)]
pub struct Unlatched {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Unlatched {
    /// The card whose clock is `/dev/ptp` with this number.
    ///
    /// # Errors
    /// The system's: the registers cannot be had.
    #[allow(unsafe_code, reason = "registers of a device are no memory that a safe wrapper knows")]
    pub fn card(number: u32) -> io::Result<Unlatched> {
        let file = File::open(format!("/sys/class/ptp/ptp{number}/device/resource0"))?;
        // SAFETY: a mapping of its own, at a place of the system's choice.
        let base = unsafe {
            let (protection, flags) = (libc::PROT_READ, libc::MAP_SHARED);
            libc::mmap(std::ptr::null_mut(), REGISTERS, protection, flags, file.as_raw_fd(), 0)
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let (base, over) = (base as usize, Arc::new(AtomicBool::new(false)));
        let seen = Arc::clone(&over);
        let thread = thread::spawn(move || {
            while !seen.load(Ordering::Acquire) {
                // SAFETY: an aligned register within the mapping, which ends below.
                unsafe { std::ptr::read_volatile((base + RXSATRH) as *const u32) };
                thread::sleep(EVERY);
            }
            // SAFETY: the mapping made above, which nobody uses any more.
            unsafe { libc::munmap(base as *mut libc::c_void, REGISTERS) };
        });
        Ok(Unlatched { over, thread: Some(thread) })
    }
}

impl Drop for Unlatched {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Release);
        // a thread that panicked has told so
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
