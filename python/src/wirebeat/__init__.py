"""Runs Wirebeat from Python.

:func:`run` runs a scenario to its end and gives its :class:`Report`; :func:`start` gives a :class:`Run` that goes on, whose
intervals can be read and whose flows can be changed meanwhile. :func:`load` reads a report from a file. What goes wrong before
there is a report is an :class:`Error` with the program's message and exit code.

The program is found by the argument ``binary``, the variable ``WIREBEAT``, or in the ``PATH``. This package sends and measures
nothing itself.
"""

from ._errors import (
    BinaryNotFound,
    Error,
    ExpectationNotMet,
    MachineError,
    OutputError,
    Unfinished,
    UsageError,
)
from ._report import Report, load
from ._run import Run, Stats, find_binary, run, start

__all__ = [
    "BinaryNotFound",
    "Error",
    "ExpectationNotMet",
    "MachineError",
    "OutputError",
    "Report",
    "Run",
    "Stats",
    "Unfinished",
    "UsageError",
    "find_binary",
    "load",
    "run",
    "start",
]
