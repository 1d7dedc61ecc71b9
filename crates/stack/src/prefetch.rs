//! Asking the processor for memory before it is needed.
//!
//! With millions of sessions each segment finds nothing of its session in the caches. A processor that reads such memory stands still until it
//! has it; one that is asked for it goes on with other segments meanwhile.

use std::ptr;

/// Has the processor fetch the cache line in which `of` begins. It changes nothing but times, and does nothing on processors other than those
/// of x86-64 and AArch64.
#[inline(always)]
#[allow(unsafe_code, reason = "the instruction has no safe wrapper in stable Rust")]
pub fn prefetch<T>(of: &T) {
    let line: *const T = ptr::from_ref(of);
    // SAFETY: the instruction reads and writes no memory that a program could see, and faults at no address.
    #[cfg(target_arch = "x86_64")]
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(line.cast());
    }
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    unsafe {
        std::arch::asm!("prfm pldl1keep, [{line}]", line = in(reg) line, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = line;
}

#[cfg(test)]
mod tests {
    #[test]
    fn asking_changes_nothing() {
        let words = [1_u64; 16];
        words.iter().for_each(super::prefetch);
        assert_eq!(words, [1; 16]);
    }
}
