//! From a destination to interface, addresses and next hop, as the kernel itself would send.

use std::net::IpAddr;
use std::time::Duration;

use wirebeat_netlink::{
    LinkError, MacAddr, Netlink, ResolveError, ResolveOptions, RouteError, RouteKind,
};
use wirebeat_testbed::{Addressing, Capability, End, Neighbours, Options, Testbed, require};

const SHORT: Duration = Duration::from_millis(200);

fn pair(addressing: Addressing, neighbours: Neighbours) -> (Testbed, Netlink) {
    let options = Options { addressing, neighbours, ..Options::default() };
    let testbed = Testbed::pair(&options).unwrap();
    let netlink = testbed.a.netlink().unwrap();
    (testbed, netlink)
}

/// Frames that the end has sent since the testbed was ready.
fn sent(end: &End) -> u64 {
    end.netlink().unwrap().stats(end.link.index).unwrap().tx_packets - end.link.stats.tx_packets
}

#[test]
fn a_station_on_the_link_is_asked_for() {
    require!(Capability::NetworkNamespaces);
    let (testbed, mut netlink) = pair(Addressing::V4AndV6, Neighbours::Asked);
    let (a, b) = (&testbed.a, &testbed.b);
    let both: [(IpAddr, IpAddr); 2] =
        [(a.ipv4.into(), b.ipv4.into()), (a.ipv6.unwrap().into(), b.ipv6.unwrap().into())];
    for (source, destination) in both {
        let found = netlink.resolve(destination, &ResolveOptions::default()).unwrap();
        assert_eq!(found.link.name, "wb0");
        assert_eq!((found.source_mac, found.destination_mac), (a.mac, b.mac));
        assert_eq!((found.source_address, found.via), (Some(source), None));
        // The same over the interface by number.
        let over = ResolveOptions { interface: Some(a.link.index), ..Default::default() };
        assert_eq!(netlink.resolve(destination, &over).unwrap().destination_mac, b.mac);
    }
}

#[test]
fn a_station_behind_a_router_is_reached_through_it() {
    require!(Capability::NetworkNamespaces);
    let testbed = Testbed::router(&Options::default()).unwrap();
    let mut device = Netlink::open_in(testbed.device.as_ref().unwrap()).unwrap();
    let router = device.link_by_name("p0").unwrap().mac.unwrap();
    let mut netlink = testbed.a.netlink().unwrap();
    let gateways: [(IpAddr, &str); 2] = [
        (testbed.b.ipv4.into(), "10.77.1.254"),
        (testbed.b.ipv6.unwrap().into(), "fd77:6200:0:1::fe"),
    ];
    for (destination, gateway) in gateways {
        let found = netlink.resolve(destination, &ResolveOptions::default()).unwrap();
        assert_eq!(found.destination_mac, router);
        assert_eq!(found.via, Some(gateway.parse().unwrap()));
    }
}

#[test]
fn what_is_known_is_not_asked_for() {
    require!(Capability::NetworkNamespaces);
    let (testbed, mut netlink) = pair(Addressing::V4, Neighbours::Fixed);
    let found = netlink.resolve(testbed.b.ipv4.into(), &ResolveOptions::default()).unwrap();
    assert_eq!(found.destination_mac, testbed.b.mac);
    assert_eq!(sent(&testbed.a), 0);
}

#[test]
fn asking_sends_one_request_and_no_user_data() {
    require!(Capability::NetworkNamespaces);
    let (testbed, mut netlink) = pair(Addressing::V4, Neighbours::Asked);
    netlink.resolve(testbed.b.ipv4.into(), &ResolveOptions::default()).unwrap();
    assert_eq!((sent(&testbed.a), sent(&testbed.b)), (1, 1), "an ARP request and its reply");
}

#[test]
fn nobody_is_asked_for_a_given_station_a_group_or_everybody() {
    require!(Capability::NetworkNamespaces);
    let (testbed, mut netlink) = pair(Addressing::V4, Neighbours::Asked);
    let over = ResolveOptions { interface: Some(testbed.a.link.index), ..Default::default() };
    let mut mac = |to: &str, options: &ResolveOptions| {
        netlink.resolve(to.parse().unwrap(), options).unwrap().destination_mac.to_string()
    };
    let station = "02:00:00:00:00:09".parse().ok();
    let given = ResolveOptions { destination_mac: station, ..over };
    assert_eq!(mac("10.77.0.99", &given), "02:00:00:00:00:09");
    assert_eq!(mac("192.0.2.1", &given), "02:00:00:00:00:09", "without any route");
    assert_eq!(mac("239.1.2.3", &over), "01:00:5e:01:02:03");
    assert_eq!(mac("10.77.0.255", &over), MacAddr::BROADCAST.to_string());
    assert_eq!(mac("255.255.255.255", &over), MacAddr::BROADCAST.to_string());
    assert_eq!(sent(&testbed.a), 0);
}

#[test]
fn a_silent_station_is_named_with_the_remedy() {
    require!(Capability::NetworkNamespaces);
    let (testbed, mut netlink) = pair(Addressing::V4AndV6, Neighbours::Asked);
    let options = ResolveOptions { timeout: SHORT, ..Default::default() };
    for silent in ["10.77.0.99", "fd77:6200::99"] {
        let error = netlink.resolve(silent.parse().unwrap(), &options).unwrap_err().to_string();
        assert_eq!(
            error,
            format!(
                "no neighbour answered for {silent} on wb0 within 0.2 s; is it up? \
                 give the port a 'next-hop' to override"
            )
        );
    }
    drop(testbed);
}

#[test]
fn a_place_without_a_way_is_told_so() {
    require!(Capability::NetworkNamespaces);
    let (testbed, mut netlink) = pair(Addressing::V4AndV6, Neighbours::Asked);
    for nowhere in ["192.0.2.1", "2001:db8::1"] {
        let nowhere = nowhere.parse().unwrap();
        let error = netlink.resolve(nowhere, &ResolveOptions::default()).unwrap_err();
        assert!(matches!(error, ResolveError::Route(RouteError::NoRoute { .. })), "{error}");
    }
    // of IPv4 the kernel takes what has no route for a neighbour on the interface that is asked for
    let over = ResolveOptions { interface: Some(testbed.a.link.index), ..Default::default() };
    let error = netlink.resolve("2001:db8::1".parse().unwrap(), &over).unwrap_err();
    let told = "there is no route to 2001:db8::1 over wb0; add one, or give the port a 'next-hop'";
    assert_eq!(error.to_string(), told);
    let own = ResolveOptions { interface: Some(testbed.a.link.index), ..Default::default() };
    let error = netlink.resolve(testbed.a.ipv4.into(), &own).unwrap_err();
    assert!(matches!(error, ResolveError::Local { .. }), "{error}");
    let local = netlink.route_to(testbed.a.ipv4.into(), None).unwrap();
    assert_eq!(local.kind, RouteKind::Local);
}

#[test]
fn an_interface_that_cannot_send_is_told_so() {
    require!(Capability::NetworkNamespaces);
    let (testbed, mut netlink) = pair(Addressing::V4, Neighbours::Fixed);
    let over = ResolveOptions { interface: Some(testbed.a.link.index), ..Default::default() };
    let to = testbed.b.ipv4.into();
    testbed.b.netlink().unwrap().set_down(testbed.b.link.index).unwrap();
    let error = netlink.resolve(to, &over).unwrap_err().to_string();
    assert_eq!(error, "interface wb0 is up without carrier; connect its other end, or set that up");
    netlink.set_down(testbed.a.link.index).unwrap();
    let error = netlink.resolve(to, &over).unwrap_err().to_string();
    assert_eq!(error, "interface wb0 is down; set it up first (`ip link set … up`)");
    netlink.delete_link(testbed.a.link.index).unwrap();
    let error = netlink.resolve(to, &over).unwrap_err();
    assert!(matches!(error, ResolveError::Link(LinkError::NoSuchIndex(_))), "{error}");
}
