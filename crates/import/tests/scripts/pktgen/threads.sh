#!/bin/bash
# With the helpers of the kernel's samples: a device for each of two threads, a thousand short flows each.
here=`dirname $0`
. ${here}/functions.sh
root_check_run_with_sudo "$@"
. ${here}/parameters.sh

NIC=ens7
PER_FLOW=${PER_FLOW:-20}
LAST=$(( F_THREAD + 2 * THREADS - 1 ))
PORTS=7000-7099

# What the caller may have set, and what holds otherwise
if [ -z "$TARGET" ]; then
    [ -n "$IP6" ] && TARGET="2001:db8::/64" || TARGET="192.0.2.128/25"
fi
[ -z "$AMOUNT" ] && AMOUNT=0
if [[ -n "$PORTS" && -n "$TARGET" ]]; then
    read -r FIRST_PORT LAST_PORT <<< $(parse_ports $PORTS)
    read -r FROM TO <<< $(parse_addr${IP6} $TARGET)
    validate_ports $FIRST_PORT $LAST_PORT
fi
read -r SOURCE_FROM SOURCE_TO <<< $(parse_addr 198.51.100.0/24)

both_ends() {
    pg_set $1 "dst${IP6}_min $FROM"
    pg_set $1 "dst${IP6}_max $TO"
    pg_set $1 "src_min $SOURCE_FROM"
    pg_set $1 "src_max $SOURCE_TO"
}

pg_ctrl reset
for ((cpu = F_THREAD; cpu <= LAST; cpu += 1)); do
    instance=${NIC}@$cpu
    [ -z "$APPEND" ] && pg_thread $cpu rem_device_all
    pg_thread $cpu add_device $instance
    both_ends $instance
    for setting in IPSRC_RND UDPDST_RND FLOW_SEQ QUEUE_MAP_CPU NO_TIMESTAMP; do
        pg_set $instance "flag $setting"
    done
    [ ! -z "$WITH_CHECKSUM" ] && pg_set $instance "flag UDPCSUM"
    pg_set $instance "dst_mac 02:00:5e:10:00:07"
    pg_set $instance "udp_dst_min $FIRST_PORT"
    pg_set $instance "udp_dst_max $LAST_PORT"
    pg_set $instance "flows 1000"
    pg_set $instance "flowlen $PER_FLOW"
    pg_set $instance "count $AMOUNT"
    pg_set $instance "pkt_size $PKT_SIZE"
    pg_set $instance "delay $DELAY"
done

results() {
    for ((cpu = F_THREAD; cpu <= LAST; cpu++)); do
        grep -A2 "Result:" /proc/net/pktgen/${NIC}@$cpu | cat
    done
}
trap results EXIT
if [ -z "$APPEND" ]; then
    echo "running until you press ctrl-c" >&2
    pg_ctrl start
else
    echo "set up; start it yourself"
fi
