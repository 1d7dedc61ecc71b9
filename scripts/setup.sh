#!/bin/sh
# Installs what is missing, and nothing when nothing is: setup.sh build|test|peers|guest|check…
#
#   build  compiles Wirebeat: a C compiler, clang for the kernel programs, libelf, zlib, Rust
#   test   programs that tests compare Wirebeat with
#   peers  generators whose packets Wirebeat sends and reads: not every distribution has them, and tests
#          skip without
#   guest  an emulated machine with real drivers (`make test-guest`)
#   check  what CI looks at the sources with
#
# Looks for the things themselves, not for packages, so that it serves on any distribution; it can
# install them where there is apt.
set -eu
cd "$(dirname "$0")/.."
. scripts/lib.sh

packages=
missing=
want_igb=

# Notes that `$1` is missing, which the Debian packages `$2` hold.
lack() {
    missing="$missing, $1"
    packages="$packages $2"
}

program() {
    command -v "$1" >/dev/null || lack "$1" "$2"
}

library() {
    pkg-config --exists "$1" 2>/dev/null || lack "$1" "$2"
}

module() {
    /usr/bin/python3 -c "import $1" 2>/dev/null || lack "Python's module $1" "$2"
}

header() {
    # Debian has some in a folder of the architecture.
    for file in /usr/include/"$1" /usr/include/*-linux-gnu/"$1"; do
        [ ! -e "$file" ] || return 0
    done
    lack "$1" "$2"
}

# The oldest Rust that will do, as Cargo.toml says.
rust_needed() {
    sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml
}

rust_found() {
    as_user cargo --version 2>/dev/null | sed -n 's/^cargo \([0-9.]*\).*/\1/p'
}

rust_serves() {
    found=$(rust_found)
    [ -n "$found" ] && printf '%s\n' "$(rust_needed)" "$found" | sort -C -V
}

for group in "$@"; do
    case $group in
    build)
        program make make
        program cc gcc
        program objcopy binutils
        program pkg-config pkg-config
        program clang clang
        library libelf libelf-dev
        library zlib zlib1g-dev
        header stdio.h libc6-dev
        header linux/bpf.h linux-libc-dev
        header bpf/bpf_helpers.h libbpf-dev
        ;;
    test)
        program tshark tshark
        program tcpdump tcpdump
        program ip iproute2
        program busybox busybox-static
        ;;
    peers)
        program mgen mgen
        program apache2 apache2
        program ab apache2-utils
        program haproxy haproxy
        program python3 python3
        program iperf iperf
        program iperf3 iperf3
        program nginx nginx-light
        program curl curl
        program dnsmasq dnsmasq-base
        program dig bind9-dnsutils
        program nft nftables
        program wrk wrk
        program chromium chromium
        program promtool prometheus
        program pdftotext poppler-utils
        module jsonschema python3-jsonschema
        module junitparser python3-junitparser
        module yaml python3-yaml
        program ITGSend d-itg
        ;;
    guest)
        want_igb=yes
        program qemu-system-x86_64 qemu-system-x86
        program objcopy binutils
        program busybox busybox-static
        program cpio cpio
        program depmod kmod
        program xz xz-utils
        program ip iproute2
        program tc iproute2
        program ethtool ethtool
        program dash dash
        program nft nftables
        ;;
    check)
        program shellcheck shellcheck
        ;;
    *)
        die "setup.sh knows the groups build, test, peers, guest and check, not '$group'"
        ;;
    esac
done

rustup_found() {
    as_user rustup --version >/dev/null 2>&1
}

want_rust=
if ! rust_serves; then
    want_rust=yes
    # A toolchain that somebody chose is left alone.
    if rustup_found && [ -n "$(rust_found)" ]; then
        die "this is Rust $(rust_found); Wirebeat needs $(rust_needed) or newer. Try: rustup update"
    fi
fi

if [ -n "$packages$want_rust" ] && command -v apt-get >/dev/null && can_be_root; then
    say "installing what is missing: ${missing#, }${want_rust:+${missing:+ and }Rust}"
    DEBIAN_FRONTEND=noninteractive
    export DEBIAN_FRONTEND
    as_root apt-get update -qq
    if [ -n "$want_rust" ]; then
        packages="$packages ca-certificates"
        # Debian has rustup from 13 on, Ubuntu from 24.04 on.
        if rustup_found; then
            :
        elif LC_ALL=C apt-cache policy rustup | grep -q 'Candidate: [0-9]'; then
            packages="$packages rustup"
        else
            packages="$packages curl"
        fi
    fi
    # shellcheck disable=SC2086 # a list of words
    as_root apt-get install -y -qq --no-install-recommends $packages >/dev/null
elif [ -n "$packages" ]; then
    die "missing: ${missing#, }. Install them as root, on Debian or Ubuntu with: apt-get install$packages"
fi

# QEMU has the card igb from version 8 on, which Debian 12 keeps among its backports: from there by lists of their own, so that
# the machine's stay as they are. What cannot be had is a card that is not tested, and no failure.
has_igb() {
    qemu-system-x86_64 -device help 2>/dev/null | grep -q '"igb"'
}

apt_of_backports() {
    as_root apt-get -qq -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$own" \
        -o "Dir::State::lists=$own/lists" -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
        -o APT::Sandbox::User=root "$@" >/dev/null
}

qemu_from_backports() { # SUITE
    say "installing QEMU with the card igb from $1-backports"
    own=$(mktemp -d)
    mkdir -p "$own/lists/partial"
    printf 'Types: deb\nURIs: %s\nSuites: %s %s-backports\nComponents: main\nSigned-By: %s\n' \
        "${WIREBEAT_DEBIAN:-http://deb.debian.org/debian}" "$1" "$1" \
        /usr/share/keyrings/debian-archive-keyring.gpg >"$own/backports.sources"
    { apt_of_backports update &&
        apt_of_backports install -y --no-install-recommends -t "$1-backports" qemu-system-x86; } ||
        say "that failed"
    rm -rf "$own"
}

if [ -n "$want_igb" ] && ! has_igb && command -v apt-get >/dev/null && can_be_root; then
    suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
    if grep -q '^ID=debian' /etc/os-release; then
        qemu_from_backports "$suite"
    fi
    has_igb || say "this QEMU has no card igb (version 8 has): that card is not tested"
fi

# The installer of rustup.rs from the place where it lies, without the shell script around it.
install_rustup() {
    command -v curl >/dev/null || die "missing: Rust $(rust_needed) or newer. See https://rustup.rs"
    from="https://static.rust-lang.org/rustup/dist/$(uname -m)-unknown-linux-gnu"
    folder=$(as_user mktemp -d)
    say "installing Rust from $from"
    for name in rustup-init rustup-init.sha256; do
        as_user curl --proto '=https' --tlsv1.2 -sSf -o "$folder/$name" "$from/$name" ||
            die "cannot load $from/$name; see https://rustup.rs"
    done
    # The file names a path of its own, of which only the sum matters.
    sum=$(cut -d' ' -f1 "$folder/rustup-init.sha256")
    printf '%s  %s\n' "$sum" "$folder/rustup-init" | sha256sum -c --quiet - ||
        die "$from/rustup-init is not what its checksum says"
    chmod +x "$folder/rustup-init"
    as_user "$folder/rustup-init" -y --quiet --profile minimal --no-modify-path >/dev/null
    rm -r "$folder"
}

if [ -n "$want_rust" ]; then
    rustup_found || install_rustup
    # A distribution's rustup comes without a toolchain.
    if ! rust_serves; then
        as_user rustup set profile minimal
        as_user rustup default stable
    fi
    rust_serves || die "this is Rust $(rust_found); Wirebeat needs $(rust_needed) or newer"
fi

# Makes sure of `cargo $1`, which rustup calls `$2`.
component() {
    as_user cargo "$1" --version >/dev/null 2>&1 ||
        as_user rustup component add "$2" ||
        die "missing: cargo $1. Install it from where this Rust came from"
}

# The generator of the kernel programs' skeletons formats what it writes.
component fmt rustfmt
case " $* " in
*" check "*) component clippy clippy ;;
esac
