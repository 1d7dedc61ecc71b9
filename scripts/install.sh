#!/bin/sh
# Installs what `make build` made, with its manual pages and completions: install.sh PREFIX
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

prefix=$1
program="$(target_dir)/release/wirebeat"
man="$prefix/share/man/man1"

install -d "$man"
install -D -m 755 "$program" "$prefix/bin/wirebeat"
# Where perf, gdb and backtraces look for it.
install -D -m 644 "$program.debug" "$prefix/bin/.debug/wirebeat.debug"
"$program" man "$man"
while read -r shell file; do
    install -d "$prefix/share/$(dirname "$file")"
    "$program" completions "$shell" >"$prefix/share/$file"
done <<'FILES'
bash bash-completion/completions/wirebeat
zsh zsh/site-functions/_wirebeat
fish fish/vendor_completions.d/wirebeat.fish
FILES
