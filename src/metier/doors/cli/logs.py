"""Logging for people: off unless asked for, and the place where a traceback goes instead of the screen."""

import logging
import os
import sys
import tempfile
import traceback


def start(*, verbose: bool, file: str | None) -> None:
    """Send Metier's log to standard error, to a file, or both."""
    log = logging.getLogger("metier")
    log.setLevel(logging.DEBUG)
    form = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")
    handlers: list[logging.Handler] = [logging.StreamHandler(sys.stderr)] if verbose else []
    if file:
        try:
            handlers.append(logging.FileHandler(file, encoding="utf-8"))
        except OSError as error:
            print(f"metier: cannot write the log file {file}: {error.strerror}", file=sys.stderr)  # noqa: T201
    for handler in handlers:
        handler.setFormatter(form)
        log.addHandler(handler)


def fault() -> str:
    """Keep the current traceback for a report; returns where it lies."""
    descriptor, path = tempfile.mkstemp(prefix="metier-fault-", suffix=".txt")
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        traceback.print_exc(file=file)
    return path
