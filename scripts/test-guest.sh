#!/usr/bin/env bash
# Runs the tests that drivers decide in emulated machines, and writes what was seen into docs/drivers.md:
#
#   test-guest.sh [--card CARD]… [--kernel KERNEL]… [--small] [--only FILTER]… [--jobs N] [--docs]
#
#   --card     igb | virtio_net | vmxnet3 | e1000e | veth   (default: all)
#   --kernel   6.1 | 6.12 | newest                          (default: all)
#   --small    6.1 with virtio_net, 6.12 with igb, the newest with igb, and of each only what shows that it works; what CI runs. A
#              guest that fails is tried once more, and that is told: its machine's clock is ours, which may stall
#   --only     tests whose path holds this, instead of the whole suite; may be given several times
#   --jobs     guests at a time (default: 1). Each has two processors; on a machine with as many, two guests take some
#              6 minutes a pair instead of 5 for one, but times are less exact
#   --docs     put what was seen into the table of docs/drivers.md; what it has of other groups, cards and kernels stays.
#              Parts of a group (--small, --only) are refused: a cell of the table is a whole group
#
# The suite, by its groups: conformance::kernel, conformance::packet, conformance::socket and cards:: everywhere; on cards guest::killed,
# guest::link, guest::pktgen, guest::refused and guest::vlan; with veth, where the driver does not matter, guest::conntrack, guest::netem, guest::pktgen,
# guest::scripts, guest::sctp and guest::vlan; with igb, which has a clock of its own, timestamps; with the newest kernel and the drivers of AF_XDP without
# a copy, guest::zero_copy.
#
# Consoles are kept in target/guests, with all that tests print. Without QEMU, or where no kernel can be fetched, it says
# so and is done: that is a skip, unless WIREBEAT_MAY_NOT_SKIP names `guest`.
set -euo pipefail
{ # bash reads a script while it runs; whoever edits this one meanwhile changes the next run
cd "$(dirname "$0")/.."
. scripts/lib.sh

cards=() kernels=() pairs=() only=() docs='' jobs=1 limit=3000 again=''
while [ $# -gt 0 ]; do
    case $1 in
    --card) cards+=("$2") && shift 2 ;;
    --kernel) kernels+=("$2") && shift 2 ;;
    --small)
        pairs=(virtio_net:6.1 igb:6.12 igb:newest)
        only=(conformance::kernel::every conformance::kernel::flat conformance::packet::every)
        limit=300 again=yes
        shift
        ;;
    --only) only+=("$2") && shift 2 ;;
    --jobs) jobs=$2 && shift 2 ;;
    --docs) docs=yes && shift ;;
    *) say "test-guest.sh: there is no '$1'; see its head" && exit 2 ;;
    esac
done
[ ${#cards[@]} -gt 0 ] || cards=(veth virtio_net igb vmxnet3 e1000e)
[ ${#kernels[@]} -gt 0 ] || kernels=(6.1 6.12 newest)
# What is tried on a card. The driver of e1000e has no XDP, and that of vmxnet3 only from Linux 6.6 on, so that the kernel engine
# does not send there.
groups_of() { # CARD KERNEL
    case $1:$2 in
    veth:*)
        echo conformance::{kernel,packet,socket} cards:: guest::{conntrack,netem,pktgen,scripts,sctp,vlan}
        ;;
    e1000e:* | vmxnet3:6.1)
        echo conformance::{packet,socket} guest::pktgen::{packets,loss} guest::link::{rings,a_cable_that_is_pulled_{from_the_receiver,may}}
        ;;
    igb:newest)
        echo conformance::{kernel,packet,socket} cards:: timestamps guest::{killed,link,pktgen,refused,vlan,zero_copy}
        ;;
    virtio_net:newest)
        echo conformance::{kernel,packet,socket} cards:: guest::{killed,link,pktgen,refused,vlan,zero_copy}
        ;;
    igb:*)
        echo conformance::{kernel,packet,socket} cards:: timestamps guest::{killed,link,pktgen,refused,vlan}
        ;;
    *)
        echo conformance::{kernel,packet,socket} cards:: guest::{killed,link,pktgen,refused,vlan}
        ;;
    esac
}
if [ ${#pairs[@]} -eq 0 ]; then
    for card in "${cards[@]}"; do
        for kernel in "${kernels[@]}"; do pairs+=("$card:$kernel"); done
    done
fi

for group in "${only[@]}"; do
    case $docs:$group in
    yes:*::*::*) say "test-guest.sh: --docs takes whole groups, and '$group' is a part of one" && exit 2 ;;
    esac
done

skip() {
    say "SKIPPED guest: $1"
    case ",${WIREBEAT_MAY_NOT_SKIP-}," in *,guest,* | *,all,*) exit 1 ;; esac
    exit 0
}

command -v qemu-system-x86_64 >/dev/null || skip "there is no QEMU; install it with: scripts/setup.sh guest"
for pair in "${pairs[@]}"; do
    scripts/guest/kernel.sh "${pair#*:}" >/dev/null || skip "no kernel ${pair#*:} could be fetched"
done

folder=$(target_dir)/guests
as_user mkdir -p "$folder"
# the test program, without what only a debugger reads: it travels in a memory disk
# shellcheck disable=SC2086 # LOCKED is an option or nothing
as_user cargo test --workspace --test it --no-run ${LOCKED-} 2>&1 | tee "$folder/built" >&2
tests=
while read -r program; do
    # all of it is read: a pipe that closes early would count as a failure
    if "$program" --list 2>/dev/null | grep '^conformance::kernel' >/dev/null; then tests=$program; fi
done < <(sed -n 's/.*Executable tests\/it\/main.rs (\(.*\))$/\1/p' "$folder/built")
[ -n "$tests" ] || die "the test program of wirebeat-run was not built: see $folder/built"
as_user objcopy --strip-debug "$tests" "$folder/it"

# What runs inside: one test after the other, because they share the cards.
suite() { # WHAT MAY NOT BE MISSING, GROUP…
    local needed=$1
    shift
    cat <<SUITE
export WIREBEAT_MAY_NOT_SKIP=$needed WIREBEAT_TEST_GUEST=yes
ip link set "\$A" down 2>/dev/null
ip link set "\$C" down 2>/dev/null
[ -z "\${MAC_A-}" ] || export WIREBEAT_TEST_CARDS=\$MAC_A,\$MAC_C
[ -z "\${MONITOR-}" ] || export WIREBEAT_TEST_MONITOR=\$MONITOR
# QEMU's igb loses datagrams that its driver leaves for it to cut (UDP segmentation)
case \$(readlink "/sys/class/net/\$A/device/driver") in
*/igb) for card in "\$A" "\$C"; do ethtool -K "\$card" tx-udp-segmentation off; done ;;
esac
failed=0
for part in $*; do
    case \$part in
    conformance*) export WIREBEAT_TEST_EMULATED=yes ;;
    *) unset WIREBEAT_TEST_EMULATED ;;
    esac
    /bin/it --test-threads=1 "\$part" 2>/tmp/errors || failed=1
    sed -n 's/^SKIPPED/skipped:/p; s/^NOTE/noted:/p' /tmp/errors
done
[ \$failed -eq 0 ]
SUITE
}

# One guest: its console, its results and what is to be said of it are files beside each other.
guest() { # CARD KERNEL
    local card=$1 kernel=$2 begun release needed good=0 note='' passed skipped groups
    local console=$folder/$card-$kernel.txt script=$folder/$card-$kernel.sh results=$folder/$card-$kernel.results
    release=$(cat "$(scripts/guest/kernel.sh "$kernel")/release")
    begun=$(date +%s)
    groups=("${only[@]}")
    # shellcheck disable=SC2207 # words without blanks
    [ ${#groups[@]} -gt 0 ] || groups=($(groups_of "$card" "$kernel"))
    needed=netns,bpf,xdp-live-frames,setpriv,bash,ethtool,pktgen,netem,8021q,sctp
    local modules='sch_tbf bridge sch_netem pktgen 8021q sctp' brought=(--program "$folder/it")
    case $card in
    veth)
        needed=$needed,nf_conntrack,nft
        modules="$modules nft_ct nft_chain_nat nft_masq"
        brought+=(--program nft)
        ;;
    *) needed=$needed,cards,monitor ;;
    esac
    suite "$needed" "${groups[@]}" >"$script"
    boot() {
        scripts/guest/boot.sh --card "${card/veth/none}" --kernel "$kernel" --limit "$limit" \
            --modules "$modules" --console "$console" "${brought[@]}" "$script" >/dev/null
    }
    boot || good=$?
    if [ "$good" -ne 0 ] && [ -n "$again" ]; then
        say "$card on Linux $release failed, and is tried once more; the first console is $console.first"
        cp "$console" "$console.first"
        good=0
        boot || good=$?
    fi
    # with one thread, a test and what came of it are one line, unless it writes to the console itself
    awk -v at="$card $release" '
        /^test .* \.\.\. ignored/ { next }
        /^test .* \.\.\. / { print at, $2, ($NF == "ok" ? "ok" : "failed") }
        /^skipped: / { name = $2; sub(/:$/, "", name); sub(/^it::/, "", name); print at, name, "skipped" }
        /^noted: / { sub(/^noted: /, ""); print at, "note", $0 }' "$console" >"$results"
    skipped=$(grep -c ' skipped$' "$results" || true)
    passed=$(($(grep -c ' ok$' "$results" || true) - skipped))
    [ "$skipped" -eq 0 ] || note=", $skipped skipped"
    [ "$good" -eq 0 ] || note="$note, not all is well: see $console"
    [ "$good" -ne 124 ] || note="$note, and then the time was over: see $console"
    say "$card on Linux $release: $passed passed in $(($(date +%s) - begun)) s$note"
    sed -n 's/^test \(.*\) \.\.\. FAILED$/    failed: \1/p' "$console" >&2
    return "$good"
}

status=0
running=0
for pair in "${pairs[@]}"; do
    if [ "$running" -ge "$jobs" ]; then
        wait -n || status=1
        running=$((running - 1))
    fi
    guest "${pair%%:*}" "${pair#*:}" &
    running=$((running + 1))
done
while [ "$running" -gt 0 ]; do
    wait -n || status=1
    running=$((running - 1))
done
if [ -n "$docs" ]; then
    results=()
    for pair in "${pairs[@]}"; do results+=("$folder/${pair%%:*}-${pair#*:}.results"); done
    as_user scripts/guest/table.sh docs/drivers.md "${results[@]}"
fi
exit "$status"
}
