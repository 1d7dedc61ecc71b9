# Shared by the scripts here: who builds, and how to become root.
#
# What is built belongs to whoever owns the checkout, also under `sudo make`; root only runs it. sudo is
# used where it asks nothing, and never waits for a password. Sourced in the folder of the checkout.
# shellcheck shell=sh

say() {
    printf '%s\n' "wirebeat: $*" >&2
}

die() {
    say "$@"
    exit 3
}

# Whether this is `sudo make …` in the checkout of the one who called sudo.
under_sudo() {
    [ "$(id -u)" -eq 0 ] && [ "${SUDO_UID:-0}" -ne 0 ] && [ "$(stat -c %u .)" -eq "$SUDO_UID" ]
}

# The home of the owner, where cargo and rustup keep what they have.
if under_sudo; then
    HOME=$(getent passwd "$SUDO_UID" | cut -d: -f6)
fi
: "${HOME:=$(getent passwd "$(id -u)" | cut -d: -f6)}"
# A shell that was open before rustup was installed does not know where its programs are.
PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH:/usr/sbin:/sbin"
export HOME PATH

# Runs a command as the owner of the checkout.
as_user() {
    if under_sudo; then
        setpriv --reuid "$SUDO_UID" --regid "$SUDO_GID" --init-groups -- \
            env USER="$SUDO_USER" LOGNAME="$SUDO_USER" "$@"
    else
        "$@"
    fi
}

# Whether this is root, or may be by a sudo that asks nothing.
can_be_root() {
    [ "$(id -u)" -eq 0 ] || sudo -n true 2>/dev/null
}

# Runs a command as root, with the variables of the environment that matter here.
as_root() {
    if [ "$(id -u)" -ne 0 ]; then
        for kept in PATH HOME TERM CI CARGO_HOME RUSTUP_HOME CARGO_TARGET_DIR CARGO_TERM_COLOR CARGO_INCREMENTAL \
            RUST_BACKTRACE DEBIAN_FRONTEND WIREBEAT_MAY_NOT_SKIP WIREBEAT_SEEDS; do
            eval "value=\${$kept-}"
            # shellcheck disable=SC2154 # the eval sets it
            [ -z "$value" ] || set -- "$kept=$value" "$@"
        done
        set -- sudo -n env "$@"
    fi
    "$@"
}

# Where cargo builds, whatever says so: CARGO_TARGET_DIR, a configuration, or the default.
target_dir() {
    as_user cargo metadata --format-version 1 --no-deps |
        sed -n 's/.*"target_directory":"\([^"]*\)".*/\1/p'
}

# Gives the owner of the checkout what root may have left in a folder.
give_back() {
    owner=$(stat -c %u:%g .)
    if [ "$owner" != 0:0 ] && can_be_root; then
        as_root chown -R --from=0 "$owner" "$1"
    fi
}
