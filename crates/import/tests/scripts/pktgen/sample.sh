#!/bin/bash
# One thread, one device, the shortest packets as fast as they go.
modprobe pktgen

function pgset() {
    local answer
    echo $1 > $PGDEV
    answer=`grep "Result: OK:" $PGDEV`
    [ "$answer" = "" ] && grep Result: $PGDEV
}

# the thread of CPU 3 gets the interface
PGDEV=/proc/net/pktgen/kpktgend_3
pgset "rem_device_all"
pgset "add_device ens5"

COPIES="clone_skb 5000"
LENGTH="pkt_size 60"   # and 4 bytes of FCS
echo "Setting up ens5"
PGDEV=/proc/net/pktgen/ens5
pgset "count 2500000"
pgset "$COPIES"
pgset "$LENGTH"
pgset "delay 0"
pgset "dst 192.0.2.17"
pgset "dst_mac  02:00:5e:10:00:02"

PGDEV=/proc/net/pktgen/pgctrl
echo "Go"
pgset "start"
cat /proc/net/pktgen/ens5
