#!/usr/bin/env python3
"""Translates FreeBSD's packetdrill scripts for TCP into Google's dialect, for crates/packetdrill.

    packetdrill-freebsd.py CHECKOUT OUT

CHECKOUT is one of https://github.com/freebsd-net/tcp-testsuite, which is no part of this repository. Each script is written to OUT
under its own path; one that asks for what there is not is not written, but named in OUT/untranslated with the reason. Segments keep
their sequence numbers, acknowledgments, flags, windows and SACK blocks, and their times. What is changed:

- sysctls of FreeBSD become those of Linux, which the library reads. Settings at FreeBSD's default are left out.
- The options of a SYN that we send are expected in our order, with our padding: the order is free (RFC 9293 section 3.1).
- FreeBSD rounds a receive buffer up to whole segments when a session opens. The buffer is set to that size at that point, and
  getsockopt(SO_RCVBUF), which reads FreeBSD's accounting, is left out.
- FreeBSD moves the edge of its window with each acknowledgment, ours moves it by a segment at least, as RFC 9293 section 3.8.6.2.2
  suggests. Windows are expected at the edge that follows from the same buffer by that rule; see `Window`.
- A socket that is bound and does not listen is in nobody's way, but Google's packetdrill refuses segments then: its calls come
  after the first segments, or not at all.
- `#ifdef STANDARD` is taken and `#ifdef FreeBSD` is not; states and fields of tcp_info have Linux's names.
- sockstat stays: scripts/packetdrill.sh has a program of that name, which tells the states of the library's sessions.
"""

import re
import sys
from pathlib import Path

# FreeBSD's settings with their defaults, and the namespace's sysctls for a value; None: only the default is possible.
SETTINGS = {
    "net.inet.tcp.rfc1323": ("1", lambda v: f"net.ipv4.tcp_timestamps={v} net.ipv4.tcp_window_scaling={v}"),
    "net.inet.tcp.sack.enable": ("1", lambda v: f"net.ipv4.tcp_sack={v}"),
    "net.inet.tcp.ecn.enable": ("2", lambda v: f"net.ipv4.tcp_ecn={v}"),
    # In milliseconds, Linux's in seconds.
    "net.inet.tcp.keepidle": ("7200000", lambda v: f"net.ipv4.tcp_keepalive_time={int(v) // 1000}"),
    "net.inet.tcp.keepintvl": ("75000", lambda v: f"net.ipv4.tcp_keepalive_intvl={int(v) // 1000}"),
    "net.inet.tcp.keepcnt": ("8", lambda v: f"net.ipv4.tcp_keepalive_probes={v}"),
    # The largest buffer says how windows are scaled.
    "kern.ipc.maxsockbuf": ("2097152", lambda v: f"net.ipv4.tcp_rmem='4096 65536 {min(int(v), 2**31 - 1)}'"),
    "net.inet.tcp.sendspace": ("32768", lambda v: f"net.ipv4.tcp_wmem='4096 {v} {v}'"),
    "net.inet.tcp.recvspace": ("65536", None),
    "net.inet.tcp.blackhole": ("0", None),
    "net.inet.tcp.delacktime": ("40", None),
    "net.inet.tcp.drop_synfin": ("0", None),
    "net.inet.tcp.ecn.maxretries": ("1", None),
    "net.inet.tcp.icmp_may_rst": ("1", None),
    "net.inet.tcp.insecure_rst": ("0", None),
    "net.inet.tcp.insecure_syn": ("0", None),
    "net.inet.tcp.keepinit": ("75000", None),
    "net.inet.tcp.rexmit_drop_options": ("0", None),
    "net.inet.tcp.rexmit_initial": ("1000", None),
    "net.inet.tcp.rexmit_slop": ("200", None),
    "net.inet.tcp.syncookies": ("1", None),
    "net.inet.tcp.syncookies_only": ("0", None),
    "net.inet.tcp.tolerate_missing_ts": ("0", None),
}
# Of no effect where each script has a stack of its own.
IGNORED = {"net.inet.tcp.hostcache.purgenow"}
RECEIVE_BUFFER = 65536

# What a script may not have, and what it is then about.
OUT = [
    (r"udp_encapsulation|udp_tunneling|/udp\(|UDP_ENCAPS", "TCP over UDP"),
    (r"fastopen|FASTOPEN|\bFO\b|TFO", "fast open"),
    (r"md5|MD5", "MD5"),
    (r"TCP_NOOPT", "a socket without options"),
    (r"TCP_KEEPINIT", "a limit on opening a session"),
    (r"IP_TTL|IPV6_UNICAST_HOPS", "the hop limit of a socket"),
]

STATES = {
    "CLOSED": "TCP_CLOSE", "LISTEN": "TCP_LISTEN", "SYN_SENT": "TCP_SYN_SENT", "SYN_RECEIVED": "TCP_SYN_RECV",
    "ESTABLISHED": "TCP_ESTABLISHED", "CLOSE_WAIT": "TCP_CLOSE_WAIT", "FIN_WAIT_1": "TCP_FIN_WAIT1",
    "CLOSING": "TCP_CLOSING", "LAST_ACK": "TCP_LAST_ACK", "FIN_WAIT_2": "TCP_FIN_WAIT2", "TIME_WAIT": "TCP_TIME_WAIT",
}
# Class selectors as bytes (RFC 2474 section 4.2.2.1), and a code of ICMP.
WORDS = {"IPTOS_DSCP_CS1": "0x20", "IPTOS_DSCP_CS7": "0xe0", "ttl_exceeded_in_transit": "code_0"}

# A time, and what happens then.
EVENT = re.compile(r"^(\s*(?:\*|\+?\s*\d+(?:\.\d+)?(?:\.\.\.\d+\.\d+)?)?\s*)(.*)$")
NO_TIME = re.compile(r"^\s*\+?\s*(?:0+(?:\.0+)?)?\s*$")


SEGMENT = re.compile(r"([<>])\s*(?:[\[(][^\])]*[\])]\s*)?([A-Z.]+)\s+(\d+):(\d+)\((\d+)\)(?:\s+ack\s+(\d+))?(\s+win\s+)?(\d+)?")


class Untranslatable(Exception):
    """The script asks for what there is not."""


class Window:
    """The windows of a receiver that avoids silly ones as RFC 9293 section 3.8.6.2.2 suggests; numbers begin at 1 behind the SYN."""

    def __init__(self, mss, shift):
        self.shift, self.buffer = shift, rounded(mss)
        self.most = min(self.buffer, 65535 << shift)
        self.step = min(mss, self.most // 2)
        # A SYN tells a window without a shift.
        self.edge, self.read, self.fin = 1 + 65535, 0, None

    def announced(self, ack):
        """The window beside an acknowledgment of `ack`."""
        unread = ack - 1 - (ack == self.fin) - self.read
        edge = ack + min(self.buffer - unread, self.most)
        if edge - self.edge >= self.step:
            self.edge = edge
        # Rounded up, so that the edge does not move back (RFC 7323 section 2.4).
        window = -(-(self.edge - ack) >> self.shift)
        self.edge = ack + (window << self.shift)
        return window

    def follow(self, event):
        """The event, with the window that is expected in it."""
        found = SEGMENT.match(event)
        if not found:
            taken = re.match(r"(?:recv|read)\((.*)\) = (\d+)", event)
            if taken and "MSG_PEEK" not in taken[1]:
                self.read += int(taken[2])
            return event
        direction, flags, _, end, _, ack, _, window = found.groups()
        if direction == "<":
            if "F" in flags and "S" not in flags:
                self.fin = int(end) + 1
        elif ack and window and not set(flags) & set("SR"):
            return event[: found.start(8)] + str(self.announced(int(ack))) + event[found.end(8) :]
        return event


def standard_only(lines):
    """The lines of which `#ifdef STANDARD` holds, and those under no condition."""
    taken = True
    for line in lines:
        if line.startswith("#"):
            word = line.split()
            if word[0] == "#ifdef" and word[1:] in (["STANDARD"], ["FreeBSD"]):
                taken = word[1] == "STANDARD"
            elif word == ["#endif"]:
                taken = True
            else:
                raise Untranslatable(line)
        elif taken:
            yield line


def command(text, settings):
    """What a command in backticks becomes; None where it does nothing. `settings` are FreeBSD's as they were set last."""
    setting = re.fullmatch(r"sysctl -w ([a-z0-9_.]+)=(\d+)", text)
    if setting:
        name, value = setting.groups()
        if name in IGNORED:
            return None
        default, sysctls = SETTINGS.get(name, (None, None))
        if sysctls is None and value != default:
            raise Untranslatable(f"{name}={value}")
        changes = value != settings.get(name, default)
        settings[name] = value
        return f"sysctl -q {sysctls(value)}" if changes else None
    if re.fullmatch(r"sockstat -[46] -P tcp (-s|-s -p 8080|-p 8080 -s)( \| grep packetdril)? \| grep -c [A-Z_]+ \| grep [01]", text):
        return text
    # It clears the kernel's sessions for the next script; here each script has a stack of its own.
    if text == "tcpdrop -s TIME_WAIT":
        return None
    raise Untranslatable(text)


def our_order(options):
    """The options of a SYN as we write them."""
    words = {word.split()[0]: word for word in options if word not in ("nop", "eol")}
    if "mss" not in words or not set(words) <= {"mss", "wscale", "sackOK", "TS"}:
        return options
    ours = [words["mss"]]
    if "TS" in words:
        ours += (["sackOK"] if "sackOK" in words else ["nop", "nop"]) + [words["TS"]]
    elif "sackOK" in words:
        ours += ["nop", "nop", "sackOK"]
    if "wscale" in words:
        ours += ["nop", words["wscale"]]
    return ours


def segment(text):
    """A segment that we send."""
    text = text.replace("(0)!", "(0)")
    found = re.fullmatch(r"(>[^<>]*)<([^<>]*)>\s*", text)
    if not found or found[2].strip() == "...":
        return text
    options = [" ".join(word.split()) for word in found[2].split(",")]
    return f"{found[1]}<{','.join(our_order(options))}>"


def rounded(mss):
    """FreeBSD's receive buffer once the segment size is known."""
    return -(-RECEIVE_BUFFER // mss) * mss


def translated(text):
    """The script in Google's dialect, as lines."""
    text = re.sub(r"//.*", "", text)
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    for pattern, what in OUT:
        if re.search(pattern, text):
            raise Untranslatable(what)
    text = text.replace("(class 0x", "(tos 0x")
    for names, pattern in ((STATES, r"TCPI_(%s)\b"), (WORDS, r"\b(%s)\b")):
        text = re.sub(pattern % "|".join(names), lambda found, names=names: names[found[1]], text)
    mss = min((int(size) for size in re.findall(r"<mss (\d+)", text)), default=536)
    # Linux doubles what is asked for.
    buffer = "+0.00 setsockopt({}, SOL_SOCKET, SO_RCVBUF, [%d], 4) = 0" % (rounded(mss) // 2)
    is_scaled = re.search(r"<\s*S[^<>]*<[^<>]*wscale", text)
    told = re.search(r">\s*S[^<>]*<[^<>]*wscale (\d+)", text)
    window = Window(mss, int(told[1]) if is_scaled and told else 0)
    # Where a script says nothing else, its time may be wrong by so much in FreeBSD's packetdrill, and by 12.5 % in Google's.
    options, events, settings, is_connecting = ["--tolerance_percent=5"], [], {}, False
    for line in standard_only(line.rstrip() for line in text.splitlines() if line.strip()):
        if line.startswith("--"):
            options.append(line)
            continue
        time, event = EVENT.match(line).groups()
        if event.startswith("`"):
            if not re.fullmatch(r"`[^`]*`", event):
                raise Untranslatable(event)
            event = command(event[1:-1], settings) or ("" if NO_TIME.match(time) else "true")
            event = event and f"`{event}`"
        elif event.startswith("getsockopt(") and "SO_RCVBUF" in event:
            event = "" if NO_TIME.match(time) else "`true`"
        elif event.startswith(">"):
            event = segment(event)
        elif re.match(r"<\s*S", event) and is_connecting:
            events.append(buffer.format(3))
            is_connecting = False
        if event:
            events.append(time + window.follow(event))
        is_connecting |= event.startswith("connect(")
        accepted = re.match(r"accept\(.*\) = (\d+)$", event)
        if accepted:
            events.append(buffer.format(accepted[1]))
    defaults = [sysctls(default) for default, sysctls in SETTINGS.values() if sysctls]
    return [*options, "", f"0.00 `sysctl -q {' '.join(defaults)}`", *segments_first(events)]


def segments_first(events):
    """Calls on a socket that does not listen yet go behind the segments that come before `listen`; those of one that never does, away."""
    is_call = [bool(re.match(r"[a-z]+ ?\(", EVENT.match(event)[2])) for event in events]
    place = [EVENT.match(event)[2] for event in events]
    first = next((at for at, event in enumerate(place) if event.startswith("<")), len(events))
    if first == len(events) or any(re.match(r"listen\(|connect\(", event) for event in place[:first]):
        return events
    listens = next((at for at, event in enumerate(place) if event.startswith("listen(")), None)
    last = len(events) if listens is None else listens
    kept = [event for event, call in zip(events[:last], is_call) if not call]
    if listens is None:
        return kept
    return kept + [event for event, call in zip(events[:last], is_call) if call] + events[last:]


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    checkout, out = map(Path, sys.argv[1:])
    scripts = sorted(checkout.rglob("*.pkt"))
    if not scripts:
        sys.exit(f"{checkout}: no scripts")
    out.mkdir(parents=True, exist_ok=True)
    reasons = []
    for script in scripts:
        name = script.relative_to(checkout)
        try:
            lines = translated(script.read_text())
        except Untranslatable as reason:
            reasons.append(f"{name.with_suffix('')}  {reason}\n")
            continue
        target = out / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text("\n".join(lines) + "\n")
    (out / "untranslated").write_text("".join(reasons))


if __name__ == "__main__":
    main()
