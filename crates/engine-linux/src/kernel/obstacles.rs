//! What on an interface keeps its driver from running XDP programs: each obstacle with the command that takes it away.
//!
//! Drivers answer with a bare error number and write the reason to the kernel's log, if anywhere. What they refuse for is
//! known: segments that the card joins, frames that fit no page, too few queues. So these are looked at.

use wirebeat_netlink::{LinkIndex, Netlink};

/// What of an interface matters here.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    /// The card joins TCP segments (LRO).
    lro: bool,
    /// The card joins segments as the stack would (GRO in hardware); whether that can be switched off here.
    gro_in_hardware: Option<Switch>,
    mtu: u32,
    /// The kernel's name of a virtual kind.
    kind: Option<String>,
    /// Queues in use, and the most that there could be.
    queues: Option<(u32, u32)>,
    cpus: u32,
}

/// Whether an offload can be changed here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Switch {
    /// It can.
    Free,
    /// It is the way that the device is: of a virtual machine, its host decides.
    Fixed,
}

/// Whether the card joins TCP segments (LRO). Where a program is attached nevertheless, some drivers refuse it, and others and
/// the kernel switch LRO off and leave it so (vmxnet3_xdp_set, generic_xdp_install): a setting that would outlive the run.
pub(super) fn has_lro(index: u32) -> bool {
    let features =
        Netlink::open().ok().and_then(|mut netlink| netlink.features(LinkIndex::new(index)).ok());
    features.unwrap_or_default().iter().any(|one| one.name == "rx-lro" && one.active)
}

/// What keeps the driver of the interface `index`, called `on`, of the calling thread's namespace from taking a program, as
/// far as that is known: phrases with a remedy each.
pub(super) fn of(index: u32, on: &str, errno: Option<i32>) -> Vec<String> {
    let state = || {
        let mut netlink = Netlink::open().ok()?;
        let index = LinkIndex::new(index);
        let link = netlink.link_by_index(index).ok()?;
        let features = netlink.features(index).unwrap_or_default();
        let active = |name: &str| features.iter().any(|one| one.name == name && one.active);
        let channels = netlink.channels(index).unwrap_or_default();
        let sum = |one: Option<u32>, both: Option<u32>| {
            (one.is_some() || both.is_some()).then(|| one.unwrap_or(0) + both.unwrap_or(0))
        };
        Some(State {
            lro: active("rx-lro"),
            gro_in_hardware: features
                .iter()
                .find(|one| one.name == "rx-gro-hw" && one.active)
                .map(|one| if one.changeable { Switch::Free } else { Switch::Fixed }),
            mtu: link.mtu,
            kind: link.kind,
            queues: sum(channels.rx, channels.combined)
                .zip(sum(channels.rx_max, channels.combined_max)),
            cpus: std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32),
        })
    };
    state().map(|state| found(&state, on, errno)).unwrap_or_default()
}

fn found(state: &State, on: &str, errno: Option<i32>) -> Vec<String> {
    let mut found = Vec::new();
    let mut add = |is: bool, why: String| found.extend(is.then_some(why));
    let is_cable = state.kind.as_deref() == Some("veth");
    // only then a virtual cable says so (veth_xdp_set of drivers/net/veth.c)
    let (too_few, too_long) = (errno == Some(libc::ENOSPC), errno == Some(libc::ERANGE));
    add(state.lro, format!("LRO is on ('ethtool -K {on} lro off')"));
    let gro = state.gro_in_hardware;
    add(
        gro == Some(Switch::Free),
        format!("GRO in hardware is on ('ethtool -K {on} rx-gro-hw off')"),
    );
    // virtio_net without VIRTIO_NET_F_CTRL_GUEST_OFFLOADS
    add(
        gro == Some(Switch::Fixed),
        "the host of this virtual machine joins segments for it (give the device guest_tso4=off,guest_tso6=off,\
         guest_ecn=off,guest_ufo=off,guest_csum=off in QEMU)"
            .to_owned(),
    );
    add(
        !is_cable && state.mtu > 1500,
        format!("its MTU is {} ('ip link set {on} mtu 1500')", state.mtu),
    );
    if let Some((queues, most)) = state.queues {
        add(
            is_cable && too_few,
            format!(
                "it has {queues} receive queues, fewer than the other end has transmit queues ('ethtool -L {on} rx N' with as \
                 many as that end has)"
            ),
        );
        let wanted = state.cpus.min(most);
        add(
            !is_cable && queues < wanted,
            format!(
                "it has {queues} queues for {} CPUs ('ethtool -L {on} combined {wanted}')",
                state.cpus
            ),
        );
    }
    add(
        is_cable && too_long,
        format!(
            "the MTU of its other end is too large for a program ('ip link set {on} mtu 1500' on both ends)"
        ),
    );
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card() -> State {
        State { mtu: 1500, queues: Some((4, 8)), cpus: 4, ..State::default() }
    }

    #[test]
    fn each_obstacle_has_its_command() {
        let said = |state: State| found(&state, "eth1", Some(libc::EOPNOTSUPP));
        assert_eq!(said(State { lro: true, ..card() }), ["LRO is on ('ethtool -K eth1 lro off')"]);
        assert_eq!(
            said(State { gro_in_hardware: Some(Switch::Free), mtu: 9000, ..card() }),
            [
                "GRO in hardware is on ('ethtool -K eth1 rx-gro-hw off')",
                "its MTU is 9000 ('ip link set eth1 mtu 1500')"
            ]
        );
        assert_eq!(
            said(State { cpus: 64, ..card() }),
            ["it has 4 queues for 64 CPUs ('ethtool -L eth1 combined 8')"]
        );
        let fixed = said(State { gro_in_hardware: Some(Switch::Fixed), ..card() });
        assert!(fixed[0].contains("guest_tso4=off,guest_tso6=off,guest_ecn=off"), "{fixed:?}");
        assert_eq!(said(card()), [""; 0]);
    }

    #[test]
    fn a_virtual_cable_is_judged_by_what_it_answers() {
        let cable = State { kind: Some("veth".into()), queues: Some((1, 4)), mtu: 9000, ..card() };
        let said = |errno| found(&cable, "wb1", Some(errno));
        assert!(said(libc::ENOSPC)[0].starts_with("it has 1 receive queues, fewer than the other"));
        assert!(said(libc::ERANGE)[0].contains("MTU of its other end is too large"));
        assert_eq!(said(libc::EOPNOTSUPP), [""; 0]);
    }
}
