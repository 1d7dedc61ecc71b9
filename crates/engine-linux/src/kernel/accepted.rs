//! What a driver accepts of the frames that it is handed: the count that holds for every driver.

use std::fs;
use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use libbpf_rs::Link;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use wirebeat_engine::port::PortError;

use super::abi;
use super::load::system;
use super::mapped::Mapped;
use super::skeletons::accepted::AcceptedSkelBuilder;

/// What a driver answered so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answers {
    /// Frames that it accepted.
    pub accepted: u64,
    /// Frames that it refused.
    pub refused: u64,
    /// `errno` of the last refusal that had one; 0 for none.
    pub error: u64,
}

/// Counts what the driver of an interface accepts of redirected frames, of this program and of others. Costs some 50 ns for up to
/// 16 frames. Ends with this.
#[derive(Debug)]
pub struct Accepted {
    counts: Mapped,
    _link: Link,
}

impl Accepted {
    /// Counts from now on at the interface `index`, called `on`, of the calling thread's namespace. Needs a kernel with BTF
    /// (`CONFIG_DEBUG_INFO_BTF`) and CAP_PERFMON.
    pub fn open(index: u32, on: &str) -> Result<Accepted, PortError> {
        let failed = |what| move |error| system(what, on, error);
        let file = |source: io::Error| PortError::System {
            what: "counting what the driver accepts".into(),
            on: on.to_owned(),
            source,
        };
        let network = fs::metadata("/proc/thread-self/ns/net").map_err(file)?.ino();
        let mut storage = MaybeUninit::uninit();
        let mut open = AcceptedSkelBuilder::default()
            .open(&mut storage)
            .map_err(failed("opening the counting program"))?;
        if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
            rodata.device = index;
            // the kernel numbers namespaces with 32 bits
            rodata.network = network as u32;
        }
        let skeleton = open.load().map_err(failed("loading the counting program"))?;
        let counts = Mapped::new(skeleton.maps.bss_accepted.as_fd(), size_of::<abi::Accepted>());
        let counts = counts.map_err(file)?;
        let link = skeleton.progs.wb_count_accepted.attach();
        let link = link.map_err(failed("attaching the counting program"))?;
        Ok(Accepted { counts, _link: link })
    }

    /// Counts from zero.
    pub fn restart(&self) {
        self.counts.zero();
    }

    /// What the driver answered since this was opened, or restarted last.
    pub fn answers(&self) -> Answers {
        Answers {
            accepted: self.counts.load(offset_of!(abi::Accepted, frames)),
            refused: self.counts.load(offset_of!(abi::Accepted, refused)),
            error: self.counts.load(offset_of!(abi::Accepted, error)),
        }
    }
}
