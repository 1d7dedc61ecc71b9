#!/usr/bin/env bash
# Puts what test-guest.sh saw into a document, between the lines <!-- guests --> and <!-- end -->: table.sh RESULTS FILE
#
# RESULTS has a line for each test: card, kernel, the test's path, ok or failed or skipped. Beside them are notes of tests: card, kernel,
# the word `note`, a text.
set -euo pipefail
results=$1 file=$2
table=$(mktemp)
trap 'rm -f "$table"' EXIT
awk '
    $3 == "note" {
        where = $1 ", Linux " $2
        sub(/^[^ ]+ [^ ]+ note /, "")
        said[++notes] = $0
        at[notes] = where
        next
    }
    {
        count_of = split($3, path, "::")
        # `cards` has its tests in itself, the others in parts
        key = $1 " " $2 " " path[count_of > 2 ? 2 : 1]
        if (!(key in seen)) { seen[key] = 1; order[++count] = key }
        if ($4 == "skipped") { skipped[key]++; passed[key]-- }
        if ($4 == "ok") passed[key]++
        if ($4 == "failed") { failed[key]++; names[key] = names[key] (names[key] ? ", " : "") "`" path[count_of] "`" }
    }
    END {
        print "| card | kernel | tried | passed | failed |"
        print "|---|---|---|---|---|"
        for (i = 1; i <= count; i++) {
            key = order[i]
            split(key, part, " ")
            of = passed[key] + failed[key]
            if (of == 0) continue
            printf "| %s | %s | `%s` | %d of %d%s | %s |\n", part[1], part[2], part[3], passed[key], of,
                (skipped[key] ? ", " skipped[key] " skipped" : ""), (names[key] ? names[key] : "none")
        }
        if (notes) print "\nFigures that these tests noted, of emulated machines:\n"
        for (i = 1; i <= notes; i++) print "- " at[i] ": " said[i]
    }' "$results" >"$table"
sed -i -e "/<!-- guests -->/,/<!-- end -->/{/<!-- guests -->/{p;r $table
};/<!-- end -->/p;d}" "$file"
