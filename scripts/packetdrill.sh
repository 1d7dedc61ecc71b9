#!/usr/bin/env bash
# Runs packetdrill's scripts for TCP against our own TCP (crates/stack) and holds what they find against tests/packetdrill.txt:
#
#   PACKETDRILL=CHECKOUT packetdrill.sh [--ipv6] [SCRIPT…]
#
#   CHECKOUT   a checkout of packetdrill (https://github.com/google/packetdrill). It is not part of this repository (GPL-2.0), and
#              nothing is fetched: without it this is a skip
#   --ipv6     addresses of IPv6 instead of IPv4; the list holds for both
#   SCRIPT     names as they stand in the list, instead of all of them
#
# packetdrill is built in a copy, in WIREBEAT_PACKETDRILL_BUILD (default: target/packetdrill). Each script runs in a network namespace of its
# own, where it may set sysctls: the library reads them there. Time is virtual. What a script said is kept beside the copy, in logs/.
# Fails when a script that is listed as passing does not pass. Needs: gcc, flex, bison, python3, ip, sysctl, and root or user namespaces.
set -euo pipefail
{ # bash reads a script while it runs; whoever edits this one meanwhile changes the next run
cd "$(dirname "$0")/.."
. scripts/lib.sh

skip() {
    echo "SKIPPED packetdrill: $*"
    exit 0
}

family=ipv4 only=()
while [ $# -gt 0 ]; do
    case $1 in
    --ipv6) family=ipv6 ;;
    -*) die "unknown flag '$1'; see the top of scripts/packetdrill.sh" ;;
    *) only+=("${1%.pkt}") ;;
    esac
    shift
done

if [ -z "${PACKETDRILL:-}" ]; then
    skip 'set PACKETDRILL to a checkout: git clone https://github.com/google/packetdrill'
fi
source=$PACKETDRILL/gtests/net
[ -f "$source/packetdrill/so_testing.c" ] || die "PACKETDRILL=$PACKETDRILL: no checkout of packetdrill (gtests/net/packetdrill/so_testing.c is not there)"
for program in gcc make flex bison python3 ip sysctl unshare timeout; do
    command -v "$program" >/dev/null || skip "$program is not installed"
done
unshare=(unshare --net)
if [ "$(id -u)" -ne 0 ]; then
    unshare=(unshare --user --map-root-user --net)
fi
# shellcheck disable=SC2016 # for the shell within
"${unshare[@]}" sh -c 'ip tuntap add dev tun0 mode tun && sysctl -q net.ipv4.tcp_ecn=0' 2>/dev/null ||
    skip 'network namespaces, or their sysctls, are not allowed here'

target=$(target_dir)
build=${WIREBEAT_PACKETDRILL_BUILD:-$target/packetdrill}
mkdir -p "$build/logs"
build=$(realpath "$build")
mkdir -p "$build/net"
cp -a "$source/." "$build/net/"
if ! (cd "$build/net/packetdrill" && ./configure && make packetdrill) >"$build/logs/build" 2>&1; then
    tail -n 20 "$build/logs/build" >&2
    die "packetdrill does not build: $build/logs/build"
fi
as_user cargo build --quiet -p wirebeat-packetdrill ${LOCKED:+"$LOCKED"}
library=$(realpath "$target/debug/libwirebeat_packetdrill.so")

# One script, in a namespace of its own. Scripts set the queue of tun0, so that there has to be one.
# shellcheck disable=SC2317 # called by xargs
run_one() {
    local name=$1 log=$build/logs/${1//\//_} args
    args=(--so_filename="$library")
    if [ "$family" = ipv6 ]; then
        # 20 bytes more, so that the MSS is the one that scripts have.
        args+=(--ip_version=ipv6 --local_ip=fd3d:fa7b:d17d::1 --remote_ip=2001:db8::1 --gateway_ip=fd3d:fa7b:d17d::8888)
        args+=("--so_flags=fd3d:fa7b:d17d::1,mtu=1520" --mtu=1520)
    else
        args+=(--local_ip=192.168.0.1 --remote_ip=192.0.2.1 --gateway_ip=192.168.0.2 --netmask_ip=255.255.0.0)
        args+=(--so_flags=192.168.0.1)
    fi
    cd "$build/net/tcp/$(dirname "$name")" || return
    # shellcheck disable=SC2016 # for the shell within
    if timeout 60 "${unshare[@]}" sh -c 'ip tuntap add dev tun0 mode tun && ip link set tun0 up
            library=$1 && shift && LD_PRELOAD=$library exec "$@"' sh "$library" \
            "$build/net/packetdrill/packetdrill" "${args[@]}" "$(basename "$name").pkt" >"$log" 2>&1; then
        echo "pass $name"
    else
        echo "fail $name"
    fi
}
export -f run_one
export build library family
# An array is not exported: its words have no spaces.
export unshare_words="${unshare[*]}"

list=tests/packetdrill.txt
names() {
    if [ ${#only[@]} -gt 0 ]; then
        printf '%s\n' "${only[@]}"
    else
        (cd "$build/net/tcp" && find . -name '*.pkt' | sed 's|^\./||; s|\.pkt$||')
    fi
}
# shellcheck disable=SC2016 # for the shell within
names | sort | xargs -P "$(nproc)" -I{} bash -c 'read -ra unshare <<<"$unshare_words"; run_one "$1"' bash {} | sort -k2 >"$build/found"

awk -v list="$list" -v family="$family" '
    BEGIN {
        while ((getline line < list) > 0) {
            if (line ~ /^#/ || line == "") continue
            split(line, part, " ")
            listed[part[2]] = part[1]
            reason = line
            sub(/^[a-z]+ +[^ ]+ */, "", reason)
            why[part[2]] = reason
        }
    }
    {
        is = listed[$2]
        count[$1]++
        if ($1 == "pass" && is != "pass") news[++changed] = "passes now, listed as " (is ? is : "nothing") ": " $2
        if ($1 == "fail" && is == "pass") wrong[++broken] = $2
        if ($1 == "fail" && is == "") news[++changed] = "fails, not listed: " $2
        if (is == "fail" || is == "out") if ($1 == "fail") printf "%-5s %s: %s\n", is, $2, why[$2]
    }
    END {
        printf "%d scripts pass, %d do not (%s)\n", count["pass"], count["fail"], family
        for (i = 1; i <= changed; i++) print news[i]
        for (i = 1; i <= broken; i++) print "NO LONGER PASSES: " wrong[i]
        exit broken > 0
    }' "$build/found" || {
    say "a script that is listed as passing does not pass; what it said: $build/logs"
    exit 1
}
exit
}
