"""Calls that must go upward through the layers, as Protocols handed in by `runtime.py`."""

from collections.abc import Callable
from typing import Protocol, TypeAlias

from metier.model.call import ApprovedCall
from metier.model.outcome import Completed, Failed

OperationFunction: TypeAlias = Callable[[ApprovedCall], Completed | Failed]
"""Blocking; `execute` runs it in a thread."""


class Operations(Protocol):
    """How `execute` finds the function behind an operation of a module."""

    def find(self, module: str, operation: str) -> OperationFunction | None:
        """The function, or None when no module offers it."""
        ...
