"""Of the files that code could not have, those that are there: what does not exist was refused to nobody."""

import os
from typing import Final

import anyio
from anyio import to_thread
from msgspec.structs import replace

from metier.model.job import Event, Report

_PATIENCE: Final = 0.5
"""A disk that does not answer must not hold up a report."""


async def only_what_is_there(report: Report) -> Report:
    """The report without files that nobody has. Code that looks for its settings in ten places was refused none."""
    if not any(map(_is_file, report.denials)):
        return report
    with anyio.move_on_after(_PATIENCE):
        kept = await to_thread.run_sync(_there, report.denials, abandon_on_cancel=True)
        return replace(report, denials=kept)
    return report


def _there(denials: tuple[Event, ...]) -> tuple[Event, ...]:
    return tuple(each for each in denials if not _is_file(each) or _exists(each))


def _is_file(event: Event) -> bool:
    return event.kind in ("read", "write")


def _exists(event: Event) -> bool:
    path = event.detail if event.kind == "read" else os.path.dirname(event.detail)
    try:
        return os.path.lexists(path)
    except ValueError:  # no path at all
        return False
