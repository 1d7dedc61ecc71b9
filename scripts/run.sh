#!/bin/sh
# Compiles a program, optimised, and runs it: run.sh PACKAGE PROGRAM [ARGUMENTS]
#
# Compiles as the owner of the checkout and runs as root where that is possible without asking. What
# Wirebeat does without root, and what root would add, the program says itself.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

package=$1
program=$2
shift 2

as_user cargo build --release --locked -p "$package"
program="$(target_dir)/release/$program"
status=0
if can_be_root; then
    as_root "$program" "$@" || status=$?
    # The benchmark writes its page there.
    give_back docs
else
    "$program" "$@" || status=$?
fi
exit "$status"
