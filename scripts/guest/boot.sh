#!/usr/bin/env bash
# Runs a shell script as root in an emulated machine with two cards of a real driver, connected to each other:
#
#   boot.sh [--card igb] [--kernel newest] [--modules 'sch_netem …'] [--program FILE]… [--file FILE]… SCRIPT
#
#   --card     igb | e1000e | vmxnet3 | virtio_net | none   (none: no cards; veth is a module of every guest)
#   --kernel   6.1 | 6.12 | newest                          (kernel.sh)
#   --modules  further modules of the kernel
#   --program  a program to bring along into /bin, with its libraries
#   --file     a file to bring along into /
#   --cpus, --memory MIB, --limit SECONDS, --console FILE   (2, 3072, 600, none)
#
# `init` says what the script finds. The console is printed; the exit status is the script's, 124 past the limit. Nothing
# leaves the emulated machine. Its processor is emulated, so that it says what works and never how fast.
set -euo pipefail
{ # bash reads a script while it runs; whoever edits this one meanwhile changes the next run
here=$(cd "$(dirname "$0")" && pwd)
card=igb kernel=newest modules='' programs=() files=() cpus=2 memory=3072 limit=600 console=''
usage() {
    echo "boot.sh: $1; see its head for usage" >&2
    exit 2
}
while [ $# -gt 1 ]; do
    case $1 in
    --card) card=$2 ;;
    --kernel) kernel=$2 ;;
    --modules) modules=$2 ;;
    --program) programs+=("$2") ;;
    --file) files+=("$2") ;;
    --cpus) cpus=$2 ;;
    --memory) memory=$2 ;;
    --limit) limit=$2 ;;
    --console) console=$2 ;;
    *) usage "there is no '$1'" ;;
    esac
    shift 2
done
script=${1:?boot.sh: which script?}
# What QEMU calls a card. virtio_net runs XDP programs only while nobody joins segments for the guest.
# Its AF_XDP sockets do without a copy only where the system maps its memory (VIRTIO_F_ACCESS_PLATFORM).
case $card in
igb | e1000e | vmxnet3) device=$card ;;
virtio_net) device=virtio-net-pci,guest_tso4=off,guest_tso6=off,guest_ecn=off,guest_ufo=off,iommu_platform=on,disable-legacy=on ;;
none) device= ;;
*) usage "there is no card '$card'" ;;
esac
if [ -n "$device" ] && ! qemu-system-x86_64 -device help 2>/dev/null | grep -q "\"${device%%,*}\""; then
    echo "boot.sh: this QEMU has no ${device%%,*} (igb needs QEMU 8; on Debian 12: apt-get install -t bookworm-backports" \
        "qemu-system-x86)" >&2
    exit 3
fi
folder=$("$here/kernel.sh" "$kernel")
release=$(cat "$folder/release")

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root"/{bin,sbin,proc,sys,dev,run,tmp,etc,lib64,usr/lib,"lib/modules/$release"}
# modules with those that they need, in that order: busybox knows nothing of soft dependencies
driver=${card/none/}
for module in virtio_pci $driver veth $modules; do
    modprobe -d "$folder/root" -S "$release" --show-depends "$module" 2>/dev/null | awk '/^insmod/ { print $2 }' || true
done | awk '!seen[$0]++' | while read -r file; do
    to=${file#"$folder/root"}
    to=$root${to#/usr}
    mkdir -p "${to%/*}"
    cp "$file" "$to"
    name=${file##*/}
    echo "${name%%.ko*}" >>"$root/modules"
done
touch "$root/modules"
find "$root/lib/modules" -name '*.xz' -exec xz -d {} +
cp "$folder/root/lib/modules/$release"/modules.{builtin,order}* "$root/lib/modules/$release/" 2>/dev/null || true
depmod -b "$root" "$release" 2>/dev/null

# A program with the libraries that it asks for.
bring() { # PROGRAM
    cp -L "$1" "$root/bin/"
    { ldd "$1" 2>/dev/null || true; } | awk '{ for (k = 1; k <= NF; k++) if ($k ~ /^\//) print $k }' |
        while read -r library; do
            mkdir -p "$root${library%/*}"
            cp -nL "$library" "$root$library" 2>/dev/null || true
        done
}
cp "$(command -v busybox)" "$root/bin/busybox"
for program in dash bash env ip tc ethtool setpriv unshare "${programs[@]}"; do
    bring "$(command -v "$program")"
done
# that of busybox takes its own programs before the real ones
ln -s dash "$root/bin/sh"
# the distributions of netem's delays
for table in /usr/lib/tc/*.dist /usr/lib/*/tc/*.dist /usr/share/tc/*.dist; do
    [ ! -e "$table" ] || { mkdir -p "$root${table%/*}" && cp -L "$table" "$root$table"; }
done
for file in "${files[@]}"; do
    cp -L "$file" "$root/"
done
cp "$script" "$root/script"
cp "$here/init" "$root/init"
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc 2>/dev/null | gzip -1) >"$work/initrd"

cards=()
if [ -n "$device" ]; then
    for number in 0 1; do
        cards+=(-device "pcie-root-port,id=r$number,slot=$((number + 1)),chassis=$((number + 1))"
            -netdev "hubport,id=h$number,hubid=0"
            -device "$device,bus=r$number,netdev=h$number,mac=52:54:00:00:00:0$((number + 1)),id=card$number")
    done
fi
# The second serial port is QEMU's monitor, which pulls cables: `echo 'set_link card0 off' >/dev/ttyS1`.
# shellcheck disable=SC2054 # QEMU's commas
monitor=(-chardev "socket,id=monitor,path=$work/monitor,server=on,wait=off" -mon chardev=monitor,mode=readline
    -chardev "socket,id=line,path=$work/monitor" -serial stdio -serial chardev:line)
status=0
timeout "$limit" qemu-system-x86_64 -machine q35 -accel tcg,thread=multi -cpu max -smp "$cpus" -m "$memory" \
    -kernel "$folder/vmlinuz" -initrd "$work/initrd" -append 'console=ttyS0 loglevel=1 panic=-1 iomem=relaxed' \
    -nographic -no-reboot -nic none "${monitor[@]}" "${cards[@]}" </dev/null >"$work/console" 2>&1 || status=$?
# what the firmware says comes before
tr -d '\r' <"$work/console" | awk '/Booting from ROM/ { said = ""; next } { said = said $0 "\n" } END { printf "%s", said }' >"$work/said"
[ -z "$console" ] || cp "$work/said" "$console"
cat "$work/said"
[ "$status" -ne 124 ] || exit 124
exit "$(sed -n 's/^guest: exit \([0-9]*\)$/\1/p' "$work/said" | tail -n 1 | grep . || echo 3)"
}
