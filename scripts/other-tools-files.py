#!/usr/bin/env python3
"""Converts the example files of T-Rex and WARP17, checks and runs what becomes of them, and prints a table.

    TREX=CHECKOUT WARP17=CHECKOUT scripts/other-tools-files.py [WORD…]

    TREX      a checkout of https://github.com/cisco-system-traffic-generator/trex-core. Its profiles are Python: T-Rex's own library writes
              them as JSON, in a copy of the checkout's scripts in a temporary folder
    WARP17    one of https://github.com/Juniper/warp17
    TREX_SIM  T-Rex's simulator ('bp-sim', which its folder 'linux' builds): packet by packet, what it counts of each template is compared too
    WIREBEAT  the program (default: target/release/wirebeat)
    WORD      only files with one of these words in their names

Neither is part of this repository, and nothing is fetched: without one its files are a skip. Stateful profiles are tried in both ways, as sessions
('sessions') and packet by packet ('packets'). What opens more than some thousand sessions or sends more than a million packets in a second is
checked and not run. All runs are in memory. A run is right where no session failed; packet by packet, where each template sent the packets of
its capture as often as it starts in a second. Ends with 1 where something ran and was not right.
"""

import json
import math
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import yaml
except ImportError:
    sys.exit("other-tools-files: python3-yaml is missing (apt-get install python3-yaml)")

WIREBEAT = os.path.abspath(os.environ.get("WIREBEAT", "target/release/wirebeat"))
# the most sessions, users and packets of a run
SESSIONS, USERS, PACKETS = 5_000, 20_000, 1_000_000
TIMEOUT = 120
# what the table says of each file
OUTCOMES = ("right", "not run", "WRONG", "refused")


SIMULATOR = os.environ.get("TREX_SIM")


def call(*words, **options):
    """Runs a command: its exit status and what it said, or that it took too long."""
    try:
        options.setdefault("stderr", subprocess.STDOUT)
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, errors="replace", timeout=TIMEOUT, **options)
    except subprocess.TimeoutExpired:
        return 124, f"it takes more than {TIMEOUT} s"
    return done.returncode, done.stdout if done.stdout.strip() else done.stderr or ""


def last_error(text):
    """The line of a text that says what is wrong."""
    lines = [line for line in text.splitlines() if line.strip()]
    wrong = [line for line in lines if line.startswith("error")]
    return (wrong or lines or ["it says nothing"])[-1].removeprefix("error: ")


def packets_in(capture):
    """How many packets a capture has."""
    data = Path(capture).read_bytes()
    magic = data[:4]
    if magic == b"\n\r\r\n":
        order = "<" if data[8:12] == b"\x4d\x3c\x2b\x1a" else ">"
        at, count = 0, 0
        while at + 8 <= len(data):
            kind, length = struct.unpack_from(order + "II", data, at)
            count += kind in (3, 6)
            at += max(length, 12)
        return count
    order = "<" if magic in (b"\xd4\xc3\xb2\xa1", b"\x4d\x3c\xb2\xa1") else ">"
    at, count = 24, 0
    while at + 16 <= len(data):
        (length,) = struct.unpack_from(order + "I", data, at + 8)
        at, count = at + 16 + length, count + 1
    return count


def simulated(scripts, profile):
    """How many packets T-Rex's simulator counts of each template's capture, in their order; nothing where it does not read the profile."""
    status, said = call(SIMULATOR, "-f", str(profile), "-d", "1", "-v", "1", cwd=scripts)
    table, _, _ = said.partition(" sum ")
    # its number and name, flows and captures a second, and packets
    rows = re.findall(r"(?m)^ *\d+ +\S+ +[\d.]+ +[\d.]+ +(\d+) ", table) if status == 0 else []
    return [int(packets) for packets in rows]


def per_second(rate):
    """A rate as it is written: 150/s."""
    found = re.fullmatch(r"([\d.]+)([kM]?)/s", str(rate))
    return float(found[1]) * {"": 1, "k": 1e3, "M": 1e6}[found[2]] if found else 0.0


class Tried:
    """One file, converted in one way."""

    def __init__(self, name, way):
        self.name, self.way, self.outcome, self.why = name, way, "refused", ""

    def convert(self, source, output, *flags):
        status, said = call(WIREBEAT, "convert", str(source), "--output", str(output), *flags)
        if status != 0:
            self.why = last_error(said)
            return None
        self.left_out = sum(1 for line in said.splitlines() if line.strip())
        status, said = call(WIREBEAT, "check", str(output))
        if status != 0:
            self.outcome, self.why = "WRONG", "check: " + last_error(said)
            return None
        return yaml.safe_load(Path(output).read_text())

    def run(self, scenario, output, *flags):
        """Runs it; the report, or nothing where that is too much."""
        groups = (scenario.get("sessions") or {}).values()
        users = sum(int(group.get("users") or 0) for group in groups)
        limits = [group.get("limit") or {} for group in groups]
        rate = sum(per_second(group.get("rate", 0)) for group in groups) + sum(per_second(of.get("opening", 0)) for of in limits)
        if rate > SESSIONS or users > USERS:
            self.outcome = "not run"
            self.why = f"{rate:,.0f} sessions/s" if rate > SESSIONS else f"{users:,} users"
            return None
        report = Path(f"{output}.json")
        status, said = call(WIREBEAT, "run", str(output), "--json", str(report), *flags, cwd=Path(output).parent)
        if status == 2:
            # what only a link or a capture says
            self.why = f"run: {last_error(said)}"
            return None
        if status not in (0, 4):
            self.outcome, self.why = "WRONG", f"run: exit code {status}: {last_error(said)}"
            return None
        return json.loads(report.read_text())

    def judge_sessions(self, report):
        clients = [group for group in report.get("sessions", []) if group["end"] == "client"]
        opened = sum(group["starts"]["opened"] for group in clients)
        failed = {}
        for group in clients:
            # a capture may end with RST, and then all of its sessions do
            good = ["in_order", "unfinished"]
            if group["program"] == "capture" and group["ends"]["reset"] == group["starts"]["opened"]:
                good.append("reset")
            for end, count in group["ends"].items():
                if end not in good and count:
                    failed[end] = failed.get(end, 0) + count
        damaged = sum(group["messages"].get("damaged", 0) + group["messages"].get("unexpected", 0) for group in clients)
        self.outcome = "WRONG" if failed or damaged else "right"
        self.why = f"{opened:,} sessions in {len(clients)} groups"
        if failed or damaged:
            self.why += f", {', '.join(f'{count} {end}' for end, count in failed.items())} {damaged or ''}"

    def judge_packets(self, scenario, report, folder, simulated):
        """Each template has a flow for each end, which together send the packets of its capture. `simulated`: what T-Rex's simulator has of it."""
        sent = {flow["name"]: flow["sent"]["sent"]["frames"] for flow in report["flows"]}
        templates, right, different = {}, 0, []
        for name, flow in scenario["flows"].items():
            templates.setdefault(re.sub(r"-(client|server)(-\d+)?$", r"\2", name), []).append((name, flow))
        judged = 0
        if simulated and len(simulated) != len(templates):
            different.append(f"the simulator has {len(simulated)} templates of {len(templates)}")
        for place, (template, flows) in enumerate(templates.items()):
            of_capture = packets_in(folder / flows[0][1]["replay"]["capture"])
            if simulated and simulated[place : place + 1] != [of_capture]:
                different.append(f"{template} has {of_capture} packets, in the simulator {simulated[place : place + 1]}")
            copies = flows[0][1]["replay"]["copies"]
            # with a limit of flows at a time it depends on how long they last
            if "departures" in copies or "tuples" in copies:
                continue
            judged += 1
            starts = math.ceil(round(per_second(copies["rate"]), 6))
            asked = starts * of_capture
            got = sum(sent.get(name, 0) for name, _ in flows)
            right += got == asked
            if got != asked:
                different.append(f"{template} {got} of {asked}")
        self.outcome = "right" if right == judged and not different else "WRONG"
        self.why = f"{sum(sent.values()):,} packets, {right} of {judged} templates as computed"
        self.why += " and simulated" if simulated else ""
        if len(templates) > judged:
            self.why += f", {len(templates) - judged} with a limit"
        if different:
            self.why += f": {', '.join(different[:3])}"


def stateful(scripts, out, wanted):
    for profile in sorted([*scripts.glob("cap2/*.yaml"), *scripts.glob("avl/*.yaml")]):
        name = str(profile.relative_to(scripts))
        text = profile.read_text(errors="replace")
        if "cap_info" not in text or not wanted(name):
            continue
        # one second of each
        short = profile.with_name(f"short-{profile.name}")
        short.write_text(re.sub(r"(?m)^(-?\s*duration\s*:\s*)[\d.]+", r"\g<1>1.0", text))
        for way in ("sessions", "packets"):
            tried = Tried(name, way)
            output = out / f"{name.replace('/', '-')}-{way}.yaml"
            scenario = tried.convert(short, output, *(["--packets"] if way == "packets" else []))
            if scenario and way == "packets":
                flows = scenario["flows"].values()
                frames = 0
                for flow in flows:
                    replay = flow["replay"]
                    frames += per_second(replay["copies"]["rate"]) * packets_in(out / replay["capture"])
                if frames / 2 > PACKETS:
                    tried.outcome, tried.why = "not run", f"{frames / 2:,.0f} packets/s"
                elif report := tried.run(scenario, output):
                    tried.judge_packets(scenario, report, out, simulated(scripts, short) if SIMULATOR else [])
            elif scenario and (report := tried.run(scenario, output)):
                tried.judge_sessions(report)
            yield tried


def advanced(scripts, out, wanted):
    python = {**os.environ, "PYTHONPATH": "automation/trex_control_plane/interactive"}
    for profile in sorted(scripts.glob("astf/*.py")):
        name = str(profile.relative_to(scripts))
        if not wanted(name):
            continue
        tried = Tried(name, "sessions")
        folder = out / profile.stem
        folder.mkdir()
        words = [sys.executable, "-m", "trex.astf.sim", "-p", str(scripts), "-f", name, "--json"]
        status, said = call(*words, cwd=scripts, env=python, stderr=subprocess.PIPE)
        # some profiles print something before
        begin = re.search(r"(?m)^{", said)
        if status != 0 or not begin:
            tried.why = f"T-Rex writes no JSON of it: {last_error(said)}"
            yield tried
            continue
        written = folder / "profile.json"
        written.write_text(said[begin.start() :])
        scenario = tried.convert(written, folder / "profile.yaml")
        if scenario and (report := tried.run(scenario, folder / "profile.yaml", "--time", "2s")):
            tried.judge_sessions(report)
        yield tried


def warp17(examples, out, wanted):
    for file in sorted(examples.glob("*.cfg")):
        if not wanted(file.name):
            continue
        tried = Tried(file.name, "sessions")
        output = out / f"{file.stem}.yaml"
        scenario = tried.convert(file, output)
        if scenario and (report := tried.run(scenario, output)):
            tried.judge_sessions(report)
        yield tried


def main():
    words = sys.argv[1:]
    if any(word.startswith("-") for word in words):
        sys.exit(__doc__.strip())
    if not os.access(WIREBEAT, os.X_OK):
        sys.exit(f"other-tools-files: there is no '{WIREBEAT}': build it (cargo build --release), or set WIREBEAT")
    wanted = lambda name: not words or any(word in name for word in words)
    all_tried = []
    with tempfile.TemporaryDirectory(prefix="wirebeat-other-tools-") as folder:
        folder = Path(folder)
        kinds = []
        if trex := os.environ.get("TREX"):
            scripts = folder / "scripts"
            # captures may be absent in a partial checkout; profiles are beside each other
            for part in ("cap2", "avl", "astf", "stl", "exp", "automation/trex_control_plane/interactive", "external_libs"):
                source = Path(trex) / "scripts" / part
                if source.is_dir():
                    shutil.copytree(source, scripts / part, symlinks=True, ignore_dangling_symlinks=True)
            kinds += [("T-Rex, stateful", stateful, scripts), ("T-Rex, advanced stateful", advanced, scripts)]
        if of_warp17 := os.environ.get("WARP17"):
            kinds.append(("WARP17", warp17, Path(of_warp17) / "examples"))
        if not kinds:
            print("SKIPPED other tools' files: set TREX and WARP17 to checkouts, see the top of this file")
            return 0
        for kind, trying, where in kinds:
            out = folder / re.sub(r"\W", "", kind)
            out.mkdir()
            print(f"\n{kind}")
            of_kind = []
            for tried in trying(where, out, wanted):
                of_kind.append(tried)
                why = tried.why.replace(str(folder), "").replace(str(where), "")
                print(f"  {tried.name:44.44} {tried.way:8} {tried.outcome:8} {why[:150]}", flush=True)
            for way in ("sessions", "packets"):
                counts = [tried.outcome for tried in of_kind if tried.way == way]
                if counts:
                    told = ", ".join(f"{counts.count(it)} {it}" for it in OUTCOMES if it in counts)
                    print(f"  {len(counts)} files as {way}: {told}")
            all_tried += of_kind
    return int(any(tried.outcome == "WRONG" for tried in all_tried))


if __name__ == "__main__":
    sys.exit(main())
