#!/bin/sh
# Runs tests: test.sh [ARGUMENTS of cargo test]; without arguments all of the workspace.
#
# Compiles as the owner of the checkout and runs as root where that is possible without asking. Says at
# the end how many passed and which were skipped, with the reason. LOCKED=--locked refuses a Cargo.lock
# that is out of date.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

[ $# -gt 0 ] || set -- --workspace

# Properties try the same cases each time; another number tries others.
export PROPTEST_RNG_SEED="${PROPTEST_RNG_SEED-4737}"

# shellcheck disable=SC2086 # LOCKED is an option or nothing
as_user cargo test ${LOCKED-} --no-run "$@"

work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

# Without root, a user namespace gives everything but eBPF.
run() {
    if can_be_root; then
        as_root "$@"
    elif unshare --user --map-root-user --net true 2>/dev/null; then
        say "running the tests in a user namespace; as root there are more"
        unshare --user --map-root-user "$@"
    else
        say "running the tests without root; as root there are more"
        "$@"
    fi
}

[ ! -t 2 ] || export CARGO_TERM_COLOR="${CARGO_TERM_COLOR:-always}"
{
    # Many simulations compute for minutes, and tests with interfaces wait for most of theirs: the ones have the time that the others
    # leave.
    simulating=
    if [ -n "${WIREBEAT_SEEDS-}" ] && [ "$*" = --workspace ]; then
        run chrt --idle 0 cargo test --locked --offline --no-fail-fast --workspace --lib simulation:: >"$work/simulations" 2>&1 &
        simulating=$!
        set -- "$@" -- --skip simulation::
    fi
    # Everything is compiled: cargo has no reason to write, or to ask the network.
    status=0
    run cargo test --locked --offline --no-fail-fast "$@" || status=$?
    if [ -n "$simulating" ]; then
        wait "$simulating" || status=$?
        grep -vE '^$|^ +Running |^running 0 |: ok\. 0 passed' "$work/simulations" || true
    fi
    echo "$status" >"$work/status"
} 2>&1 | tee "$work/log"

give_back "$(target_dir)"

# SKIPPED module::test: what is missing and why
grep -o 'SKIPPED .*' "$work/log" | sort -u >"$work/skipped" || true
awk -v skipped="$(wc -l <"$work/skipped")" '
    /^test result:/ { passed += $4; failed += $6; ignored += $8 }
    END {
        printf "\n%d tests passed, %d failed, %d skipped, %d ignored\n",
            passed - skipped, failed, skipped, ignored
    }' "$work/log"
sed -n 's/^test \(.*\) \.\.\. FAILED$/failed: \1/p' "$work/log"
awk '
    { name = $2; sub(/:$/, "", name); reason = substr($0, length($1 $2) + 3) }
    !(reason in names) { reasons[++count] = reason }
    { names[reason] = names[reason] "\n    " name }
    END { for (i = 1; i <= count; i++) print "skipped, because " reasons[i] ":" names[reasons[i]] }
' "$work/skipped"
exit "$(cat "$work/status")"
