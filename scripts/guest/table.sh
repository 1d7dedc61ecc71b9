#!/usr/bin/env bash
# Puts what test-guest.sh saw into a document, between the lines <!-- guests --> and <!-- end -->: table.sh FILE RESULTS…
#
# RESULTS has a line for each test: card, kernel, the test's path, ok or failed or skipped. Beside them are notes of tests: card, kernel,
# the word `note`, a text. A group of tests (a cell of the table) that RESULTS has replaces what the document said of it, for this card
# and this series of kernels (6.12); everything else in the document stays.
set -euo pipefail
file=$1
shift
table=$(mktemp)
trap 'rm -f "$table"' EXIT
sed -n '/<!-- guests -->/,/<!-- end -->/p' "$file" | awk '
    function series(release, part) { split(release, part, "."); return part[1] "." part[2] }
    # one text without its numbers is one note
    function note(text, key, word) {
        key = text
        gsub(/[0-9.]+/, "", key)
        split(text, word, " ")
        key = series(word[4]) " " key
        if (!(key in notes)) order[++note_count] = key
        notes[key] = text
    }
    function row_of(card, release, row) {
        row = card " " series(release)
        if (!(row in releases)) rows[++row_count] = row
        releases[row] = release
        return row
    }
    BEGIN {
        count = split("kernel packet socket cards timestamps killed link pktgen refused vlan netem scripts sctp zero_copy conntrack", groups, " ")
        card_count = split("veth virtio_net igb vmxnet3 e1000e", cards, " ")
    }
    # what the document says already
    FILENAME == "-" && /^\| [a-z]/ && !/^\| card / {
        line = $0
        gsub(/`/, "", line)
        split(line, cell, / *\| */)
        row = row_of(cell[2], cell[3])
        for (i = 1; i <= count; i++) said[row, groups[i]] = cell[i + 3]
        next
    }
    FILENAME == "-" && /^- .*, Linux .*` failed$/ { failures[$2 " " series($4) " " $5] = $0; next }
    FILENAME == "-" && /^- / { note($0); next }
    FILENAME == "-" { next }
    # what was seen now
    $3 == "note" {
        text = $0
        sub(/^[^ ]+ [^ ]+ note /, "", text)
        note("- " $1 ", Linux " $2 ": " text)
        next
    }
    {
        row = row_of($1, $2)
        parts = split($3, path, "::")
        # `cards` has its tests in itself, the others in parts
        group = path[parts > 2 ? 2 : 1]
        key = row SUBSEP group
        if (!(key in all)) for (name in failures) if (index(name, $1 ", " series($2) " `" group "::") == 1) delete failures[name]
        if ($4 == "skipped") { skipped[key]++; passed[key]--; all[key]-- }
        if ($4 == "ok") { passed[key]++; all[key]++ }
        if ($4 == "failed") {
            all[key]++
            failures[$1 ", " series($2) " `" group "::" path[parts] "`"] = "- " $1 ", Linux " $2 " `" group "::" path[parts] "` failed"
        }
        said[key] = passed[key] + 0 " of " all[key] + 0 (skipped[key] ? ", " skipped[key] " skipped" : "")
    }
    END {
        head = "| card | Linux |"
        under = "|---|---|"
        for (i = 1; i <= count; i++) { head = head " `" groups[i] "` |"; under = under "---|" }
        print head "\n" under
        for (c = 1; c <= card_count; c++)
            for (r = 1; r <= row_count; r++) {
                split(rows[r], of, " ")
                if (of[1] != cards[c]) continue
                line = "| " of[1] " | " releases[rows[r]] " |"
                for (i = 1; i <= count; i++) line = line " " said[rows[r], groups[i]] " |"
                gsub(/  +/, " ", line)
                print line
            }
        first = 1
        for (name in failures) { if (first) print ""; first = 0; print failures[name] }
        first = 1
        for (i = 1; i <= note_count; i++) {
            if (first) print "\nFigures that these tests noted, of emulated machines:\n"
            first = 0
            print notes[order[i]]
        }
    }' - "$@" >"$table"
sed -i -e "/<!-- guests -->/,/<!-- end -->/{/<!-- guests -->/{p;r $table
};/<!-- end -->/p;d}" "$file"
