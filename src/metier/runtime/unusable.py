"""State or configuration that cannot be used: the log has it whole, once for each reason; callers may be anywhere, and learn no place of
this machine."""

import logging
import os
import re
from typing import Final, final

from metier.config.settings import Settings

_PATH: Final = re.compile(r"(?<![\w~.:/-])~?/(?:[^\s/:'\"`,;]+/)+")
"""The folders before the last name of a path. An address with a scheme is none."""


@final
class Unusable:
    """Why something cannot be used at the moment. Belongs to one loop."""

    def __init__(self, log: logging.Logger, what: str, well: str) -> None:
        """`what` is said before a reason, `well` once it is over."""
        self._log = log
        self._what = what
        self._well = well
        self._said = ""

    def because(self, error: Exception) -> None:
        """Say it, unless that was said before: it is tried again and again."""
        if self._said != (said := str(error)):
            self._said = said
            self._log.warning("%s: %s", self._what, said)

    def over(self) -> None:
        """It can be used. Said where it was said that it cannot."""
        if self._said:
            self._said = ""
            self._log.warning("%s", self._well)


def without_places(message: str, settings: Settings) -> str:
    """For whoever called: which file it is, and not where this machine keeps it."""
    folders = {settings.home, settings.project, *map(os.path.dirname, settings.files)}
    for folder in sorted(filter(None, folders), key=len, reverse=True):  # they may have spaces in them
        message = message.replace(os.path.join(folder, ""), "")
    return _PATH.sub("", message)
