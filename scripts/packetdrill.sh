#!/usr/bin/env bash
# Runs packetdrill's scripts for TCP against our own TCP (crates/stack) and holds what they find against tests/packetdrill.txt, or
# those of FreeBSD against tests/packetdrill-freebsd.txt:
#
#   PACKETDRILL=CHECKOUT packetdrill.sh [--ipv6] [SCRIPT…]
#   PACKETDRILL=CHECKOUT FREEBSD_TESTSUITE=CHECKOUT packetdrill.sh --freebsd [SCRIPT…]
#
#   PACKETDRILL        a checkout of packetdrill (https://github.com/google/packetdrill). It is not part of this repository (GPL-2.0),
#                      and nothing is fetched: without it this is a skip
#   FREEBSD_TESTSUITE  one of FreeBSD's scripts (https://github.com/freebsd-net/tcp-testsuite), likewise. They are of IPv4 and IPv6, and
#                      are translated by scripts/packetdrill-freebsd.py
#   --ipv6             addresses of IPv6 instead of IPv4; the list holds for both
#   SCRIPT             names of scripts, or patterns as they stand in the list, instead of all of them
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

family=ipv4 only=() list=tests/packetdrill.txt
while [ $# -gt 0 ]; do
    case $1 in
    --ipv6) family=ipv6 ;;
    --freebsd) family=freebsd list=tests/packetdrill-freebsd.txt ;;
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
if [ "$family" = freebsd ]; then
    [ -n "${FREEBSD_TESTSUITE:-}" ] ||
        skip 'set FREEBSD_TESTSUITE to a checkout: git clone https://github.com/freebsd-net/tcp-testsuite'
    [ -d "$FREEBSD_TESTSUITE/state-event-engine" ] || die "FREEBSD_TESTSUITE=$FREEBSD_TESTSUITE: no checkout of tcp-testsuite"
fi
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

scripts=$build/net/tcp
if [ "$family" = freebsd ]; then
    scripts=$build/freebsd
    rm -rf "${scripts:?}" "${build:?}/bin"
    python3 scripts/packetdrill-freebsd.py "$FREEBSD_TESTSUITE" "$scripts"
    # Scripts look at sessions with it, which are the library's here.
    mkdir "$build/bin"
    # shellcheck disable=SC2016 # for the shell within
    printf '#!/bin/sh\ncat "$WIREBEAT_PACKETDRILL_STATES"\n' >"$build/bin/sockstat"
    chmod +x "$build/bin/sockstat"
fi

# One script, in a namespace of its own. Scripts set the queue of tun0, so that there has to be one.
# shellcheck disable=SC2317 # called by xargs
run_one() {
    local name=$1 script=$scripts/$1.pkt log=$build/logs/${1//\//_} args flags="" version=$family mtu
    if [ ! -e "$script" ]; then
        # FreeBSD's, and not translated.
        echo "fail $name"
        return
    fi
    if [ "$family" = freebsd ]; then
        version=$(sed -n 's/^--ip_version=//p' "$script")
        mtu=$(sed -n 's/^--mtu=/,mtu=/p' "$script")
        flags="$mtu,quick_acks=0"
    fi
    args=(--so_filename="$library")
    if [ "$version" = ipv6 ]; then
        args+=(--ip_version=ipv6 --local_ip=fd3d:fa7b:d17d::1 --remote_ip=2001:db8::1 --gateway_ip=fd3d:fa7b:d17d::8888)
        # Google's scripts have the MSS of IPv4, so the packets are 20 bytes larger.
        [ "$family" = freebsd ] || { args+=(--mtu=1520) && flags=,mtu=1520; }
        args+=("--so_flags=fd3d:fa7b:d17d::1$flags")
    else
        args+=(--local_ip=192.168.0.1 --remote_ip=192.0.2.1 --gateway_ip=192.168.0.2 --netmask_ip=255.255.0.0)
        args+=("--so_flags=192.168.0.1$flags")
    fi
    cd "$(dirname "$script")" || return
    # shellcheck disable=SC2016 # for the shell within
    if WIREBEAT_PACKETDRILL_STATES=$log.states PATH=$build/bin:$PATH \
        timeout 60 "${unshare[@]}" sh -c 'ip tuntap add dev tun0 mode tun && ip link set tun0 up
            library=$1 && shift && LD_PRELOAD=$library exec "$@"' sh "$library" \
        "$build/net/packetdrill/packetdrill" "${args[@]}" "$(basename "$script")" >"$log" 2>&1; then
        echo "pass $name"
    else
        echo "fail $name"
    fi
    rm -f "$log.states"
}
export -f run_one
export build scripts library family
# An array is not exported: its words have no spaces.
export unshare_words="${unshare[*]}"

names() {
    if [ "$family" = freebsd ]; then
        (cd "$FREEBSD_TESTSUITE" && find . -name '*.pkt')
    else
        (cd "$scripts" && find . -name '*.pkt')
    fi | sed 's|^\./||; s|\.pkt$||' | while read -r name; do
        [ ${#only[@]} -gt 0 ] || echo "$name"
        for pattern in "${only[@]}"; do
            # shellcheck disable=SC2053 # a pattern
            if [[ $name = $pattern || ${name%-ipv[46]} = $pattern ]]; then
                echo "$name"
                break
            fi
        done
    done
}
# shellcheck disable=SC2016 # for the shell within
names | sort | xargs -P "$(nproc)" -I{} bash -c 'read -ra unshare <<<"$unshare_words"; run_one "$1"' bash {} | sort -k2 >"$build/found"

# The first line of the list whose pattern fits holds for a script; FreeBSD's come in pairs, -ipv4 and -ipv6, for which one name stands
# without that. With a count, as many scripts have to be there as it says.
awk -v list="$list" -v family="$family" -v all="$((${#only[@]} == 0))" '
    BEGIN {
        while ((getline line < list) > 0) {
            if (line ~ /^#/ || line == "") continue
            lines++
            words = split(line, part, " ")
            at = part[2] ~ /^[0-9]+$/ ? 3 : 2
            state[lines] = part[1]
            expected[lines] = at == 3 ? part[2] : 1
            pattern[lines] = part[at]
            rule = part[at]
            gsub(/\./, "\\.", rule)
            gsub(/\*/, ".*", rule)
            fits[lines] = "^" rule "$"
            reason = line
            sub(/^[a-z]+ +([0-9]+ +)?[^ ]+ */, "", reason)
            why[lines] = reason
        }
    }
    {
        count[$1]++
        name = $2
        if (family == "freebsd") sub(/-ipv[46]$/, "", name)
        for (at = 1; at <= lines && name !~ fits[at] && $2 !~ fits[at]; at++);
        if (at > lines) { news[++changed] = ($1 == "pass" ? "passes" : "fails") ", not listed: " $2; next }
        seen[at]++
        if ($1 == "pass" && state[at] != "pass") news[++changed] = "passes now, listed as " state[at] ": " $2
        if ($1 == "fail" && state[at] == "pass") wrong[++broken] = "no longer passes: " $2
        if ($1 == "fail") failed[at]++
    }
    END {
        for (at = 1; at <= lines; at++) {
            if (failed[at] && state[at] != "pass") printf "%-5s %4d %s: %s\n", state[at], failed[at], pattern[at], why[at]
            if (all && seen[at] != expected[at])
                wrong[++broken] = pattern[at] ": listed for " expected[at] " scripts, there are " seen[at] + 0
        }
        printf "%d scripts pass, %d do not (%s)\n", count["pass"], count["fail"], family
        for (at = 1; at <= changed; at++) print news[at]
        for (at = 1; at <= broken; at++) print "WRONG: " wrong[at]
        exit broken > 0
    }' "$build/found" || {
    say "what is listed as passing does not pass, or is not there; what scripts said: $build/logs"
    exit 1
}
exit
}
