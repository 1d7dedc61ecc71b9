//! Observations of the kernel's receiver: what it tells of single frames. That they agree with the measurements, whatever
//! arrives, is held by `kernel_meter::both`, through which all its tests go.

use wirebeat_engine_linux::kernel::{KernelReceiver, ObservationOptions, ReceiveOptions};
use wirebeat_meter::observation::{Observed, Standing};
use wirebeat_testbed::{Capability, Testbed, require};

use crate::kernel_meter::{expecting, probe, receive_options, send_frames};
use crate::world::cable;

fn receiver(bed: &Testbed, observe: ObservationOptions) -> KernelReceiver {
    let options = ReceiveOptions { observe: Some(observe), ..receive_options(bed, expecting(1)) };
    bed.b.namespace.run(|| KernelReceiver::open(&options)).unwrap().unwrap()
}

/// A reader that comes too late loses what is new, and not what is in the rings, and knows how much it was.
#[test]
fn what_finds_its_ring_full_is_counted_as_lost() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    const SLOTS: u32 = 64;
    let bed = cable();
    let observe = ObservationOptions { frames: Observed::Measured, bytes: 0, slots: SLOTS };
    let mut receiver = receiver(&bed, observe);
    let mut observations = receiver.observations().unwrap();
    assert!(receiver.observations().is_none(), "there is one reader");
    for round in 0..3 {
        let first = round * 1000;
        let frames: Vec<_> = (first..first + 1000).map(|n| probe(0, n, 1)).collect();
        send_frames(&bed, &receiver, &frames);
        let mut numbers = Vec::new();
        // in two parts: what was read makes room
        for most in [40, usize::MAX] {
            observations.read(most, |seen| {
                assert_eq!((seen.flow, seen.standing), (Some(0), Standing::New));
                assert_eq!((seen.frame_len, seen.bytes), (64, &[][..]));
                numbers.push(seen.sequence.unwrap());
            });
        }
        assert_eq!(numbers, (first..first + SLOTS).collect::<Vec<_>>());
        assert_eq!(observations.lost(), u64::from((round + 1) * (1000 - SLOTS)));
    }
    assert_eq!(receiver.summary().flows[&0].frames, 3000, "the meter has them all");
}

/// A frame that is shorter than what is asked for comes whole.
#[test]
fn the_first_bytes_come_with_them() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let bed = cable();
    let frames: Vec<Vec<u8>> =
        [14, 15, 21, 22, 23, 60, 61, 127, 128, 129, 135, 136, 137, 1400, 1500]
            .into_iter()
            .map(|len: usize| {
                (0..len).map(|at| if at == 12 { 0x88 } else { (at + len) as u8 }).collect()
            })
            .collect();
    for bytes in [8, 60, 128, 136, 1400, 1520] {
        let observe = ObservationOptions { frames: Observed::All, bytes, slots: 256 };
        let mut receiver = receiver(&bed, observe);
        let mut observations = receiver.observations().unwrap();
        send_frames(&bed, &receiver, &frames);
        // they can be read when the receiver is gone
        drop(receiver);
        let mut seen = Vec::new();
        observations.read(usize::MAX, |one| {
            assert_eq!((one.standing, one.flow, one.sequence), (Standing::Foreign, None, None));
            seen.push(one.bytes.to_vec());
        });
        let most = usize::from(bytes).next_multiple_of(8);
        let expected: Vec<_> =
            frames.iter().map(|frame| frame[..frame.len().min(most)].to_vec()).collect();
        assert_eq!(seen, expected, "{bytes} bytes");
        assert_eq!(observations.lost(), 0);
    }
}

#[test]
fn rings_that_take_too_much_memory_are_refused() {
    require!(Capability::NetworkNamespaces, Capability::Bpf);
    let bed = cable();
    let observe = ObservationOptions { frames: Observed::All, bytes: 128, slots: 1 << 26 };
    let options = ReceiveOptions { observe: Some(observe), ..receive_options(&bed, expecting(1)) };
    let refused = bed.b.namespace.run(|| KernelReceiver::open(&options)).unwrap().unwrap_err();
    assert!(refused.to_string().contains("more than 256 MiB"), "{refused}");
}
