"""What goes wrong, one class for each exit code of the program (docs/cli.md)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Optional

if TYPE_CHECKING:
    from ._report import Report


class Error(Exception):
    """Why there is no report, or what is wrong with it.

    ``message`` says what, where and what would help. ``exit_code`` is the program's, negative where a signal ended it, and
    ``None`` where it was not started. ``report`` is there if a run took place.
    """

    def __init__(
        self, message: str, exit_code: Optional[int] = None, report: Optional[Report] = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = exit_code
        self.report = report


class BinaryNotFound(Error):
    """The program ``wirebeat`` is not there."""


class Unfinished(Error):
    """The run was cut off, or its counters are inconsistent (exit code 1)."""


class UsageError(Error):
    """The scenario or an argument is wrong; nothing was sent (exit code 2)."""


class MachineError(Error):
    """This machine, or another one, cannot do it; nothing was sent (exit code 3)."""


class ExpectationNotMet(Error):
    """An expectation was not met (exit code 4)."""


class OutputError(Error):
    """An output could not be written (exit code 5)."""


_BY_EXIT_CODE = {
    1: Unfinished,
    2: UsageError,
    3: MachineError,
    4: ExpectationNotMet,
    5: OutputError,
}


def error_of(message: str, exit_code: int, report: Optional[Report] = None) -> Error:
    """The error of a program that ended with ``exit_code``."""
    return _BY_EXIT_CODE.get(exit_code, Error)(message, exit_code, report)
