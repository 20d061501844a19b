"""`log`: a skill says what it does. Kept in the call's own log, and told to the log of the operator in one line."""

import logging
from typing import Final, final

from anyio import to_thread

from metier.host.call_log import CallLog
from metier.model.digest import Json
from metier.model.permission import PermissionSet
from metier.model.ports import Answered, NotAnswered
from metier.model.text import one_line

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "error": logging.ERROR,
}
LONGEST: Final = 8_192
_SHOWN: Final = 500
_log: Final = logging.getLogger("metier.skill")


@final
class Log:
    """Open to every skill."""

    def __init__(self, call_id: str, skill: str, log: CallLog) -> None:
        self._call_id = call_id
        self._skill = skill
        self._log = log

    def allowed(self, permissions: PermissionSet) -> bool:
        return True

    async def answer(self, params: dict[str, Json]) -> Answered | NotAnswered:
        level, message = params.get("level", "info"), params.get("message")
        meta = params.get("meta")
        if not isinstance(level, str) or level not in LEVELS or not isinstance(message, str):
            return _invalid(f"`level` is one of {', '.join(LEVELS)} and `message` is a text")
        if not isinstance(meta, dict | None) or not set(params) <= {"level", "message", "meta"}:
            return _invalid("beside `level` and `message` there is only `meta`, an object")
        if len(message) > LONGEST:
            return _invalid(f"`message` has at most {LONGEST:,} characters")
        told = await to_thread.run_sync(self._log.mask.text, message) if self._log.mask else message
        _log.log(
            LEVELS[level],
            "%s (%s): %s",
            one_line(self._skill, 80),
            self._call_id,
            one_line(told, _SHOWN),
        )
        entry: dict[str, Json] = {"level": level, "message": message}
        return await self._log.append({**entry, "meta": meta} if meta else entry) or Answered()

    async def aclose(self) -> None:
        """Nothing is held."""


def _invalid(why: str) -> NotAnswered:
    return NotAnswered(name="InvalidRequest", message=f"log is refused: {why}")
