#!/bin/sh
# Moves symbols and debug information of a program to PROGRAM.debug: split-debug.sh PROGRAM
#
# The program names that file by its name and checksum, so that perf, gdb and a panic's backtrace find it beside the
# program or in .debug below. A program that has none left stays as it is.
set -eu

program=$1
debug=$program.debug
if ! readelf --wide --sections "$program" | grep -q ' \.symtab '; then
    exit 0
fi
# A new file: cargo has its own under another name, and one that runs is not disturbed.
work=$program.split
trap 'rm -f "$work"' EXIT
rm -f "$debug"
objcopy --only-keep-debug "$program" "$debug"
chmod 644 "$debug"
objcopy --strip-all --add-gnu-debuglink="$debug" "$program" "$work"
mv "$work" "$program"
