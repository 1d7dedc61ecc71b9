"""Runs: the program as a child process, its lines of JSON, and ``wirebeat ctl``.

Two threads read what the program prints, so that it never waits for a slow caller; what is not read in time is dropped and
counted. Nothing here knows what a scenario says.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time as clock
from collections import deque
from decimal import Decimal
from types import TracebackType
from typing import (
    IO,
    Any,
    Deque,
    Dict,
    Iterator,
    List,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Type,
    Union,
)

from ._errors import BinaryNotFound, Error, UsageError, error_of
from ._report import Report

#: A scenario: what it says, or the name of its file (or of a script of another tool).
Scenario = Union[Mapping[str, Any], str, "os.PathLike[str]"]
#: A time: in seconds, or as the traffic language writes it (``"100ms"``).
Time = Union[str, int, float]

_INTERVALS_MAX = 4096
_NOTICES_MAX = 256
_CTL_TIMEOUT_S = 15.0
#: What is said of a run that is about to begin.
_NOT_BEGUN = ("the run has not begun", "no run answers")
#: Flags of ``wirebeat run`` that change what this package reads, and what to do instead.
_NOT_OPTIONS = {
    "--json": "this package reads the report as JSON itself; write it with Report.save(path)",
    "--json-lines": "this package reads the report as JSON itself; write it with Report.save(path), and see Run.intervals()",
    "--repeat": "a report is of one run; call run() once for each",
    "--warmup": "a report is of one run; call run() before, and leave its report aside",
}
#: How the line of an interval begins.
_INTERVAL = '{"from_ns":'


class Stats(NamedTuple):
    """What a run has counted so far (``wirebeat ctl stats``)."""

    #: The intervals that ended last, in the order of time.
    intervals: List[Dict[str, Any]]
    #: All intervals that have ended, as one.
    total: Dict[str, Any]


def find_binary(binary: Optional[Union[str, os.PathLike[str]]] = None) -> str:
    """The program: ``binary``, or what the variable ``WIREBEAT`` names, or ``wirebeat`` in the ``PATH``."""
    named = os.fspath(binary) if binary is not None else os.environ.get("WIREBEAT") or "wirebeat"
    found = shutil.which(named)
    if found is None:
        raise BinaryNotFound(
            f"there is no program '{named}'; install Wirebeat, name it with binary=, or set WIREBEAT to its path"
        )
    return found


def run(
    scenario: Scenario,
    *,
    time: Optional[Time] = None,
    interval: Optional[Time] = None,
    variables: Optional[Mapping[str, Any]] = None,
    options: Sequence[str] = (),
    binary: Optional[Union[str, os.PathLike[str]]] = None,
    **set: Any,
) -> Report:
    """Runs ``scenario`` to its end and gives its report. The arguments are those of :func:`start`.

    A run that was cut off or does not meet its expectations has a report, too: ``Report.ok`` says so, and ``Report.check``
    raises. Without a report an :class:`Error` is raised.
    """
    started = start(
        scenario,
        time=time,
        interval=interval,
        variables=variables,
        options=options,
        binary=binary,
        **set,
    )
    with started:
        return started.result()


def start(
    scenario: Scenario,
    *,
    time: Optional[Time] = None,
    interval: Optional[Time] = None,
    control: bool = False,
    variables: Optional[Mapping[str, Any]] = None,
    options: Sequence[str] = (),
    binary: Optional[Union[str, os.PathLike[str]]] = None,
    **set: Any,
) -> Run:
    """Starts ``scenario`` and gives the run, which is a context manager: at its end the run is over.

    :param scenario: a ``dict`` as docs/scenario.md describes it (names of files in it are relative to the present directory), or
        the name of a file in YAML or JSON.
    :param time: end after this time, whatever the scenario says.
    :param interval: count in intervals of this length.
    :param control: let :meth:`Run.change`, :meth:`Run.stats` and the like reach the run. Not on a virtual clock.
    :param variables: values for variables of the scenario, whatever their names.
    :param options: more flags of ``wirebeat run``, such as ``["--expect", "loss == 0%"]``.
    :param binary: the program, see :func:`find_binary`.
    :param set: values for variables of the scenario, whose names are words of Python: ``rate="50kpps"``.
    """
    options = _checked(options)
    given = isinstance(scenario, Mapping)
    text = json.dumps(scenario) if given else ""
    name = "-" if given else os.fspath(scenario)  # type: ignore[arg-type]
    # a file whose name begins like a flag
    name = os.path.join(".", name) if name.startswith("-") and not given else name
    line = [find_binary(binary), "run", name, "--json-lines"]
    line += ["--time", _time(time)] if time is not None else []
    line += ["--interval", _time(interval)] if interval is not None else []
    for key, value in {**(variables or {}), **set}.items():
        line += ["--set", f"{key}={_value(value)}"]
    return Run(line, text if given else None, options, control)


class Run:
    """A run that goes on. :func:`start` makes it.

    ``command_line`` is what was started. ``notices`` are the last lines that the program said to people, and ``missed`` is how
    many intervals were dropped because :meth:`intervals` was not read.
    """

    def __init__(
        self, line: List[str], text: Optional[str], options: List[str], control: bool
    ) -> None:
        # the program makes its socket only where nobody else can write
        self._folder = tempfile.mkdtemp(prefix="wirebeat-") if control else None
        self._socket = os.path.join(self._folder, "control") if self._folder else None
        flags = [f"--control={self._socket}"] if self._socket else []
        self.command_line: List[str] = line + flags + options
        self.notices: Deque[str] = deque(maxlen=_NOTICES_MAX)
        self.missed = 0
        self._intervals: Deque[str] = deque()
        self._last: Optional[str] = None
        self._read = threading.Condition()
        self._over = False
        try:
            self._process = subprocess.Popen(
                self.command_line,
                stdin=subprocess.DEVNULL if text is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                encoding="utf-8",
                errors="replace",
                # of a terminal's Ctrl-C Python decides what becomes of the run
                start_new_session=True,
            )
        except OSError as error:
            self._clean()
            raise BinaryNotFound(f"cannot start '{line[0]}': {error}") from error
        self._threads = [
            threading.Thread(target=self._read_lines, daemon=True),
            threading.Thread(target=self._read_notices, daemon=True),
        ]
        for thread in self._threads:
            thread.start()
        # a run does not outlive the program that asked for it
        atexit.register(self.stop)
        if text is not None:
            self._write(text)

    def intervals(self) -> Iterator[Dict[str, Any]]:
        """Each interval soon after its end, until the run is over; raises if it ends without a report.

        An interval is given once, to whoever asks first. Its form is that of ``intervals`` in reports (docs/report.md). On a
        virtual clock all of them come at the end.
        """
        while True:
            with self._read:
                while not self._intervals and not self._over:
                    self._read.wait()
                if not self._intervals:
                    break
                line = self._intervals.popleft()
            yield json.loads(line)
        self.result()

    def change(
        self,
        flow: str,
        *,
        rate: Optional[str] = None,
        size: Optional[str] = None,
        departures: Optional[str] = None,
        sub_flows: Optional[int] = None,
    ) -> None:
        """Changes a flow, or how a group of sessions starts; what is not given stays. Needs ``control=True``."""
        given = {"rate": rate, "size": size, "departures": departures, "sub-flows": sub_flows}
        flags = [f"--{name}={value}" for name, value in given.items() if value is not None]
        self._ctl("set", *flags, "--", flow)

    def pause(self, flow: str) -> None:
        """Lets a flow, or the starts of a group of sessions, pause. Needs ``control=True``."""
        self._ctl("pause", "--", flow)

    def resume(self, flow: str) -> None:
        """Lets it go on. Needs ``control=True``."""
        self._ctl("resume", "--", flow)

    def end(self, flow: str) -> None:
        """Ends a flow, or the starts of a group of sessions; the run ends with the last. Needs ``control=True``."""
        self._ctl("stop", "--", flow)

    def stats(self, last: int = 1) -> Stats:
        """What the run has counted: its ``last`` intervals that ended, and the sum of all. Needs ``control=True``."""
        lines = [
            json.loads(line)
            for line in self._ctl("stats", "--json-lines", f"--last={last}").splitlines()
        ]
        intervals = [line["interval"] for line in lines if "interval" in line]
        return Stats(intervals, lines[-1]["total"])

    def stop(self) -> None:
        """Ends the run, which then reports: :meth:`result` gives the report. Does not wait."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)

    def kill(self) -> None:
        """Ends the program at once, without a report."""
        if self._process.poll() is None:
            self._process.kill()

    @property
    def running(self) -> bool:
        """Whether the program is at work."""
        return self._process.poll() is None

    def result(self, timeout: Optional[float] = None) -> Report:
        """Waits for the end of the run and gives its report.

        Raises ``TimeoutError`` if it is not over after ``timeout`` seconds, and :class:`Error` if there is no report.
        """
        until = None if timeout is None else clock.monotonic() + timeout
        for thread in self._threads:
            thread.join(None if until is None else max(0.0, until - clock.monotonic()))
        try:
            code = self._process.wait(None if until is None else max(0.0, until - clock.monotonic()))
        except subprocess.TimeoutExpired:
            raise TimeoutError(f"the run is not over after {timeout} s") from None
        self._clean()
        data = _parsed(self._last)
        if "verdict" in data:
            return Report(data)
        if "error" in data:
            raise error_of(data["error"]["message"], data["error"]["exit_code"])
        told = "; ".join(list(self.notices)[-3:]) or "it said nothing"
        raise error_of(f"the program ended with code {code} and without a report: {told}", code)

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    def close(self, timeout: float = 30.0) -> None:
        """Ends the run if it goes on: in order, and after ``timeout`` seconds at once."""
        self.stop()
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            self._process.wait()
        for thread in self._threads:
            thread.join()
        self._clean()

    def _ctl(self, command: str, *arguments: str) -> str:
        """Asks the run. One that is about to begin is asked again."""
        if self._socket is None:
            raise Error("the run cannot be reached; start it with control=True")
        line = [self.command_line[0], "ctl", "--control", self._socket, command, *arguments]
        until = clock.monotonic() + _CTL_TIMEOUT_S
        while True:
            ended = subprocess.run(line, capture_output=True, encoding="utf-8", errors="replace")
            if ended.returncode == 0:
                return ended.stdout
            message = _message(ended)
            begins = self.running and any(text in message for text in _NOT_BEGUN)
            if not begins or clock.monotonic() > until:
                raise error_of(message, ended.returncode)
            clock.sleep(0.05)

    def _write(self, text: str) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        try:
            with stdin:
                stdin.write(text)
        except BrokenPipeError:
            # it has ended, and says why
            pass

    def _read_lines(self) -> None:
        for line in _lines(self._process.stdout):
            if not line.startswith(_INTERVAL):
                # the report, or the error
                self._last = line
                continue
            with self._read:
                self._intervals.append(line)
                if len(self._intervals) > _INTERVALS_MAX:
                    self._intervals.popleft()
                    self.missed += 1
                self._read.notify_all()
        with self._read:
            self._over = True
            self._read.notify_all()

    def _read_notices(self) -> None:
        for line in _lines(self._process.stderr):
            self.notices.append(line.rstrip("\n"))

    def _clean(self) -> None:
        atexit.unregister(self.stop)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def _lines(stream: Optional[IO[str]]) -> Iterator[str]:
    assert stream is not None
    with stream:
        yield from stream


def _checked(options: Sequence[str]) -> List[str]:
    """The flags as a list; raises if they are none, or if one of them changes what this package reads."""
    if isinstance(options, (str, bytes)):
        raise TypeError('options is a list of words, as in options=["--expect", "loss == 0%"]')
    options = list(options)
    for option in options:
        if not isinstance(option, str):
            raise TypeError(f"options is a list of str, and {option!r} is none")
        if option == "--":
            break
        instead = _NOT_OPTIONS.get(option.split("=", 1)[0])
        if instead is not None:
            raise UsageError(f"options cannot have '{option}': {instead}")
    return options


def _parsed(line: Optional[str]) -> Dict[str, Any]:
    try:
        data = json.loads(line or "")
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}


def _message(ended: subprocess.CompletedProcess[str]) -> str:
    """What a program said that failed: as JSON, or in lines for people."""
    told = _parsed(ended.stdout.strip().split("\n")[-1])
    if "error" in told:
        return str(told["error"]["message"])
    lines = [line.strip() for line in ended.stderr.strip().splitlines()]
    return "; ".join(re.sub("^(error|hint): ", "", line) for line in lines)


def _time(value: Time) -> str:
    """A time as the traffic language writes it."""
    return value if isinstance(value, str) else f"{Decimal(str(value)):f}s"


def _value(value: Any) -> str:
    """A value as YAML writes it."""
    return value if isinstance(value, str) else json.dumps(value)
