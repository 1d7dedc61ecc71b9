#!/usr/bin/env bash
# Fetches a kernel of Debian with its modules, once: kernel.sh 6.1|6.12|newest
#
# Prints the folder that holds them: `vmlinuz`, and `root/lib/modules/RELEASE`. Debian's packages, checked by apt, come to
# $WIREBEAT_GUESTS (~/.cache/wirebeat-guests); lists and packages of the machine itself stay as they are.
set -euo pipefail
cache=${WIREBEAT_GUESTS:-${XDG_CACHE_HOME:-$HOME/.cache}/wirebeat-guests}

case ${1-} in
6.1) suites=bookworm ;;
6.12) suites='trixie bookworm-backports' ;;
newest) suites=sid ;;
*)
    echo "kernel.sh: there are 6.1, 6.12 and newest, not '${1-}'" >&2
    exit 2
    ;;
esac
kernel=$cache/kernel-$1

# Debian's own archive, whichever suite this machine has, by the keys that it trusts.
keys=/usr/share/keyrings/debian-archive-keyring.gpg
apt_of() { # SUITE COMMAND…
    local suite=$1 of=$cache/apt-$1
    shift
    mkdir -p "$of/lists/partial" "$of/archives/partial"
    printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n' \
        "${WIREBEAT_DEBIAN:-http://deb.debian.org/debian}" "$suite" "$keys" >"$of/one.sources"
    "$1" -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$of" -o "Dir::State::lists=$of/lists" \
        -o "Dir::Cache::archives=$of/archives" -o "Dir::Cache::pkgcache=" -o "Dir::Cache::srcpkgcache=" \
        -o APT::Sandbox::User=root -o APT::Architecture=amd64 "${@:2}"
}

# The package of the newest plain kernel whose name begins like that.
newest() { # SUITE BEGINNING
    apt_of "$1" apt-cache pkgnames "$2" | grep -E "^$2[0-9][^ ]*-amd64\$" |
        grep -v -E 'cloud|rt-|dbg|unsigned' | sort -V | tail -n 1 || true
}

# The packages of a suite that hold image and modules: of old Debian one, of new Debian two.
packages() { # SUITE
    local names
    names="$(newest "$1" linux-modules-) $(newest "$1" linux-binary-)"
    [ "$names" != ' ' ] || names=$(newest "$1" linux-image-)
    # of the suite that was asked for: backports name the version
    case $names in *"${2:-}"*) echo "$names" ;; esac
}

fetch() {
    local suite names
    for suite in $suites; do
        apt_of "$suite" apt-get -qq update || continue
        case $kernel in *-newest) names=$(packages "$suite") ;; *) names=$(packages "$suite" "-${kernel##*-}.") ;; esac
        [ -n "${names// /}" ] || continue
        rm -rf "$kernel"
        mkdir -p "$kernel/deb" "$kernel/root"
        # shellcheck disable=SC2086 # a list of words
        (cd "$kernel/deb" && apt_of "$suite" apt-get -qq download $names) || continue
        for package in "$kernel"/deb/*.deb; do
            dpkg-deb -x "$package" "$kernel/root"
        done
        rm -r "$kernel/deb"
        [ -d "$kernel/root/lib/modules" ] || {
            mkdir -p "$kernel/root/lib"
            ln -sfn ../usr/lib/modules "$kernel/root/lib/modules"
        }
        release=$(ls "$kernel/root/lib/modules")
        depmod -b "$kernel/root" "$release" 2>/dev/null
        ln -sfn "$(cd "$kernel" && find root -name 'vmlinuz*' -type f | head -n 1)" "$kernel/vmlinuz"
        echo "$release" >"$kernel/release"
        return
    done
    echo "kernel.sh: no package of Debian with Linux $1 could be fetched from the suites $suites" >&2
    exit 3
}

mkdir -p "$cache"
# two runs do not fetch at once
exec 9>"$cache/.lock"
flock 9
[ -s "$kernel/release" ] || fetch "$1" >&2
echo "$kernel"
