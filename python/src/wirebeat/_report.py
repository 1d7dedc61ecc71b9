"""Reports, and rows of them.

A row is a flat ``dict``: what lies deeper in the JSON has the names of the way there, joined with dots, such as
``received.one_way_delay_ns.mean``. Lists (histograms) have no place in a row and are left out; ``Report.data`` has everything.
``pandas.DataFrame(rows)`` takes such rows as they are. docs/report.md describes each value.
"""

from __future__ import annotations

import json
import os
from typing import Any, Dict, Iterable, Iterator, List, Mapping, Tuple, Union

from ._errors import Error, error_of

Row = Dict[str, Any]

#: The version of reports that this package reads (``schema_version``).
_SCHEMA_VERSION = "4"
#: What else the program writes as JSON: a key that only such a document has, and what it is.
_OTHERS = {
    "points": "several runs (of --repeat or 'wirebeat sweep'); their reports are in \"points\" of the JSON",
    "runs": "several runs side by side; their reports are in \"runs\" of the JSON",
    "old_runs": "a comparison (of 'wirebeat compare')",
    "test": "a test (of 'wirebeat test')",
}


class Report:
    """What came of a run.

    ``data`` is the report as the program wrote it, a ``dict``; ``report["total"]`` is short for ``report.data["total"]``.
    """

    def __init__(self, data: Mapping[str, Any]) -> None:
        self.data: Dict[str, Any] = dict(data)

    def __getitem__(self, key: str) -> Any:
        return self.data[key]

    def __contains__(self, key: object) -> bool:
        return key in self.data

    def __repr__(self) -> str:
        flows, sessions = len(self.data.get("flows", [])), len(self.data.get("sessions", []))
        return f"<wirebeat.Report: {self.verdict}, {flows} flows, {sessions} groups of sessions>"

    @property
    def verdict(self) -> str:
        """What to make of the run: ``done``, ``unfinished``, ``unmet`` and others (docs/report.md)."""
        return str(self.data["verdict"])

    @property
    def exit_code(self) -> int:
        """The exit code that stands for the verdict; 0 is good."""
        return int(self.data["exit_code"])

    @property
    def ok(self) -> bool:
        """Whether the run came to its end, its counters are consistent, and its expectations were met."""
        return self.exit_code == 0

    def check(self) -> Report:
        """This report, if it is ``ok``; otherwise raises :class:`Unfinished` or :class:`ExpectationNotMet`, with the report."""
        if self.ok:
            return self
        raise error_of(self._complaint(), self.exit_code, self)

    def _complaint(self) -> str:
        """What is wrong with the run, in a sentence or two."""
        parts = [self.data, self.data.get("total", {})]
        parts += self.data.get("flows", []) + self.data.get("sessions", [])
        texts = (one.get("text") for part in parts for one in _failed(part))
        unmet = ", ".join(dict.fromkeys(text for text in texts if text))
        end = self.data.get("end")
        why = end.get("message") if isinstance(end, dict) else None
        said = [f"the run is {self.verdict}", why, f"not met: {unmet}" if unmet else None]
        return "; ".join(part for part in said if part)

    def total(self) -> Row:
        """All flows together, as a row."""
        return _flat(self.data.get("total", {}))

    def flows(self) -> List[Row]:
        """A row for each flow."""
        return [_flat(flow) for flow in self.data.get("flows", [])]

    def sessions(self) -> List[Row]:
        """A row for each group of sessions at each end."""
        return [_flat(group) for group in self.data.get("sessions", [])]

    def intervals(self, flows: bool = False) -> List[Row]:
        """A row for each interval, of all flows together; with ``flows`` one for each flow in each interval instead.

        Each begins with ``from_ns`` and ``to_ns``, from the start of the run.
        """
        return list(interval_rows(self.data.get("intervals", []), flows))

    def session_intervals(self) -> List[Row]:
        """A row for each group of sessions, at each end, in each interval."""
        intervals = self.data.get("session_intervals", [])
        return [
            {"from_ns": interval["from_ns"], "to_ns": interval["to_ns"], **_flat(group)}
            for interval in intervals
            for group in interval["sessions"]
        ]

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the report as JSON, for :func:`load` and for ``wirebeat report``."""
        with open(path, "w", encoding="utf-8") as file:
            json.dump(self.data, file, indent=2)
            file.write("\n")


def load(path: Union[str, os.PathLike[str]]) -> Report:
    """The report in a file of ``--json`` or ``--json-lines``.

    Raises :class:`Error` if there is none in it, if it is of another ``schema_version``, and for several runs, tests and comparisons.
    """
    name = os.fspath(path)
    try:
        # a program on Windows may have put a byte order mark before it
        with open(path, encoding="utf-8-sig") as file:
            text = file.read()
    except UnicodeDecodeError:
        raise Error(f"{name} is not a report in JSON: it is not text in UTF-8") from None
    if not text.strip():
        raise Error(f"{name} is empty")
    try:
        data = json.loads(text)
    except ValueError:
        try:
            data = json.loads(text.strip().splitlines()[-1])
        except ValueError as error:
            raise Error(f"{name} is not a report in JSON, or is cut short: {error}") from None
    if not isinstance(data, dict):
        raise Error(f"{name} has no report")
    if isinstance(data.get("error"), dict):
        raise error_of(data["error"]["message"], data["error"]["exit_code"])
    for key, what in _OTHERS.items():
        if key in data:
            raise Error(f"{name} is not the report of a run, but {what}")
    if "verdict" not in data:
        raise Error(f"{name} has no report")
    version = data.get("schema_version")
    if version != _SCHEMA_VERSION:
        raise Error(
            f"{name} is a report of schema version {version!r}, and this package reads {_SCHEMA_VERSION!r};"
            " use the package that belongs to the program that wrote it"
        )
    return Report(data)


def interval_rows(intervals: Iterable[Mapping[str, Any]], flows: bool) -> Iterator[Row]:
    """Rows of intervals, in all or of each flow."""
    for interval in intervals:
        times = {"from_ns": interval["from_ns"], "to_ns": interval["to_ns"]}
        if flows:
            for flow in interval.get("flows", []):
                yield {**times, **_flat(flow)}
        else:
            whole = {key: interval[key] for key in ("expired", "cpus") if key in interval}
            yield {**times, **_flat(interval.get("total", {})), **_flat(whole)}


def _failed(part: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    return (one for one in part.get("expectations", []) if one.get("met") is not True)


def _flat(value: Mapping[str, Any]) -> Row:
    return dict(_leaves("", value))


def _leaves(way: str, value: Mapping[str, Any]) -> Iterator[Tuple[str, Any]]:
    for key, inner in value.items():
        name = f"{way}.{key}" if way else key
        if isinstance(inner, Mapping):
            yield from _leaves(name, inner)
        elif not isinstance(inner, list):
            yield name, inner
