#!/bin/sh
# Every parameter, written with echo
P=/proc/net/pktgen
for device in vlan mpls six mix list random rate never double; do
    echo "add_device $device" > $P/kpktgend_0
done
echo "max_before_softirq 1" > $P/kpktgend_0
set_it() {
    D=$P/$1; shift_is_not_needed=1
    echo "$2" > $D
}
set_it vlan "pkt_size 124"; set_it vlan "dst_min 10.0.0.1"; set_it vlan "dst_max 10.0.0.10"
set_it vlan "src_min 10.1.0.1"; set_it vlan "src_max 10.1.0.4"
set_it vlan "vlan_id 100" ; set_it vlan "vlan_p 5"; set_it vlan "vlan_cfi 1"
set_it vlan "svlan_id 200"; set_it vlan "svlan_p 2"; set_it vlan "flag VID_RND"
set_it vlan "src_mac 02:00:00:00:00:01"; set_it vlan "src_mac_count 16"
set_it vlan "dst_mac 02:00:00:00:01:00"; set_it vlan "dst_mac_count 8"; set_it vlan "flag MACDST_RND"
set_it vlan "tos b8"; set_it vlan "ratep 10000"; set_it vlan "count 0"

set_it mpls "dst 10.0.0.2"; set_it mpls "mpls 0001000a,0002000a,0003010a"; set_it mpls "rate 100"
set_it mpls "flag UDPCSUM"; set_it mpls "queue_map_min 1"; set_it mpls "frags 2"; set_it mpls "node 0"

set_it six "dst6 2001:db8::2"; set_it six "src6 2001:db8::1"; set_it six "traffic_class 20"
set_it six "udp_src_min 1000"; set_it six "udp_src_max 1004"; set_it six "burst 8"; set_it six "delay 8000"
echo "add_device six@1" > $P/kpktgend_1
set_it six@1 "dst6_min 2001:db8::"; set_it six@1 "dst6_max 2001:db8::ffff"; set_it six@1 "flag UDPCSUM"
set_it six@1 "delay 1000000"; set_it six@1 "pkt_size 1514"

set_it mix "imix_weights 60,7 590,4 1514,1"; set_it mix "dst 10.0.0.3"; set_it mix "delay 3000"
set_it mix "spi 5"; set_it mix "flag IPSEC"; set_it mix "xmit_mode queue_xmit"

set_it list "min_pkt_size 70"; set_it list "max_pkt_size 74"; set_it list "dst 10.0.0.4"; set_it list "delay 5000"
set_it list "flag IPDST_RND"; set_it list "dst_max 10.0.0.200"; set_it list "flows 16"; set_it list "flowlen 4"
set_it random "min_pkt_size 60"; set_it random "max_pkt_size 1514"; set_it random "dst 10.0.0.5"
set_it random "flag TXSIZE_RND"; set_it random "delay 7000"; set_it random "flag !TXSIZE_RND"
set_it random "flag TXSIZE_RND"; set_it random "clear_counters"; set_it random "skb_priority 3"
set_it rate "dst 10.0.0.6"; set_it rate "rate 1000"; set_it rate "udp_dst_min 7"; set_it rate "udp_dst_max 7"
set_it never "delay 2147483647"; set_it never "dst 10.0.0.7"
set_it double "dst 10.0.0.8"; set_it double "vlan_id 5"; set_it double "mpls 0001010a"; set_it double "ratep 3"
if [ -e /sys/class/net/eth9 ]; then
    echo "add_device eth9" > $P/kpktgend_9
fi
while true; do break; done
case "$1" in
  start) echo start;;
esac
ethtool -K vlan tso off
echo 1 > /proc/sys/net/ipv4/ip_forward
echo "start" | sudo tee $P/pgctrl
echo "count 7" > $P/vlan
echo "stop" > $P/pgctrl
