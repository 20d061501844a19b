"""The module `runtime`: the stop button, the trust level, and how things stand. For operators."""

from typing import Final, final

from anyio import to_thread

from metier.errors import MetierError, RecordError, StateError
from metier.kernel.host_role import holder
from metier.kernel.operation import NOTHING, Asked, Module, OperationError, module
from metier.kernel.operators import BAD_PARAMS, Desk, for_operators, taking, text
from metier.model.digest import Json
from metier.model.role import READ_AUDIT, STEER
from metier.model.text import one_line
from metier.model.trust_level import LEVELS, MEANING
from metier.record.calls import UnderWay, calls_under_way
from metier.record.level import Changed, last_change, set_level
from metier.record.policy import NONE, last_policy
from metier.record.stop import Stopped, resume, stop, stopping_in

_LONGEST_WHY: Final = 2_000
_WHY: Final[dict[str, Json]] = {"type": "string", "maxLength": _LONGEST_WHY}
"""Everybody is told it who is refused, agents too: so it is one line."""
_LEVEL: Final[dict[str, Json]] = {"enum": [*LEVELS]}
_SHOWN: Final = ("usable", "unavailable", "pending_approval", "disabled", "broken", "shadowed")


@final
class Steer:
    """What is done about the whole of it."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def module(self) -> Module:
        """`runtime.stop`, `resume`, `status`, `level_get` and `level_set`."""
        return module(
            "runtime",
            for_operators(
                "runtime.stop",
                self._stop,
                "End every running call and refuse all others, in every process and after every restart.",
                taking(why=_WHY),
                permission=STEER,
            ),
            for_operators(
                "runtime.resume",
                self._resume,
                "Let things run again after a stop. What was ended stays so.",
                NOTHING,
                permission=STEER,
                risk="high",
            ),
            for_operators(
                "runtime.status",
                self._status,
                "Whether everything is stopped, who is the host, the trust level, and how much there is of everything.",
                NOTHING,
                permission=READ_AUDIT,
                effect="read",
            ),
            for_operators(
                "runtime.level_get",
                self._level_get,
                "How far agents, skills and triggers may act by themselves, and who said so.",
                NOTHING,
                permission=READ_AUDIT,
                effect="read",
            ),
            for_operators(
                "runtime.level_set",
                self._level_set,
                "Change how far agents, skills and triggers may act by themselves.",
                taking(["level"], level=_LEVEL),
                permission=STEER,
                risk="high",
            ),
        )

    async def _stop(self, asked: Asked) -> Json:
        why, by, unrecorded = one_line(text(asked, "why"), _LONGEST_WHY), asked.principal.id, ""
        ending = await to_thread.run_sync(self._running)
        try:
            await to_thread.run_sync(lambda: stop(self._desk.database, by=by, why=why))
        except RecordError as error:
            unrecorded = str(error)
        except StateError as error:
            # Nobody else can be told, and nothing new begins while nothing can be written: what runs here at least ends.
            self._desk.end_all(why or f"{by} stopped everything")
            raise OperationError(
                "E_STATE", f"what runs in this process is ended, but others could not be told: {error}"
            ) from error
        own = [each for each in ending if each.call_id != asked.call_id and each.process is not None]
        return {"stopped": True, "ending": [each.call_id for each in own], "unrecorded": unrecorded}

    async def _resume(self, asked: Asked) -> Json:
        return {
            "resumed": await to_thread.run_sync(lambda: resume(self._desk.database, by=asked.principal.id))
        }

    async def _level_get(self, asked: Asked) -> Json:
        return _level(await to_thread.run_sync(last_change, self._desk.database))

    async def _level_set(self, asked: Asked) -> Json:
        new = text(asked, "level")
        if new not in LEVELS:
            raise OperationError(BAD_PARAMS, f"a trust level is one of {', '.join(LEVELS)}")
        before = await to_thread.run_sync(lambda: set_level(self._desk.database, new, by=asked.principal.id))
        return {**_level(await to_thread.run_sync(last_change, self._desk.database)), "before": before}

    async def _status(self, asked: Asked) -> Json:
        return await to_thread.run_sync(self._told)

    def _told(self) -> Json:
        """Blocking."""
        from importlib.metadata import version  # slow to import, seldom needed

        desk = self._desk
        with desk.database.reading() as connection:
            stopped = stopping_in(connection)
            pending = int(
                connection.execute("SELECT count(*) FROM approval WHERE state = 'pending'").fetchone()[0]
            )
            records = int(connection.execute("SELECT coalesce(max(seq), 0) FROM audit").fetchone()[0])
        level, running = last_change(desk.database), self._running()
        shown = [each.shown for each in desk.catalog().listed]
        alive = [each for each in running if each.process is not None]
        policy = last_policy(desk.database)
        skills: dict[str, Json] = {word: shown.count(word) for word in _SHOWN}
        return {
            "stopped": _stopped(stopped),
            "level": level.level,
            "level_changed_at": level.at,
            "level_changed_by": level.by,
            "host": self._host(),
            "calls": {"running": len(alive), "lost": len(running) - len(alive)},
            "approvals": {"pending": pending},
            "skills": skills,
            "records": records,
            "policy": {"digest": "" if policy == NONE else policy},
            "version": version("metier"),
        }

    def _host(self) -> Json:
        here = self._desk.hosts()
        try:
            found = holder(self._desk.settings().home)
        except MetierError as error:
            return {"runs": here, "here": here, "process": None, "problem": error.message}
        return {
            "runs": here or found is not None,
            "here": here,
            "process": (found.pid or None) if found is not None else None,
            "problem": "",
        }

    def _running(self) -> list[UnderWay]:
        """That they cannot be listed undoes no stop."""
        try:
            return calls_under_way(self._desk.database)
        except MetierError:
            return []


def _stopped(found: Stopped | None) -> Json:
    return None if found is None else {"why": found.why, "by": found.by, "at": found.at}


def _level(found: Changed) -> dict[str, Json]:
    return {
        "level": found.level,
        "levels": [{"level": each, "means": MEANING[each]} for each in LEVELS],
        "changed_at": found.at,
        "changed_by": found.by,
    }
