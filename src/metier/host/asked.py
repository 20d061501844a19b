"""What a run asked of the host and how it was answered: short lines for the record, bounded, and without values.

A program is told by its name and the number of its arguments, an address without its query: what is handed on is the
skill's own business, and may be secret. Equal lines are counted. A run that asks nothing costs nothing.
"""

import re
from collections.abc import Callable
from typing import Final, final

from metier.model.digest import Json
from metier.model.job import Event
from metier.model.outcome import Attempt, Request
from metier.model.ports import Answered, Host, NotAnswered
from metier.model.text import one_line
from metier.record.secret_text import MASK, mask_text
from metier.sandbox.ending import Asked

MOST: Final = 64
"""Different lines; further ones are only counted."""
_LONGEST: Final = 200
_KEY: Final = re.compile(r"(?=.*[0-9A-Z]).{20,}", re.DOTALL)
"""Long, and no plain word: the addresses of many services end in what opens them."""


@final
class Noting:
    """The host of one run, with a note of everything it was asked."""

    def __init__(self, host: Host, alarm: Callable[[Event], None] = lambda _event: None) -> None:
        """`alarm` is told of a request outside the permissions at once."""
        self._host = host
        self._alarm = alarm
        self._counts: dict[tuple[str, str, str], int] = {}
        self._refused: dict[tuple[str, str], int] = {}
        self._unlisted = 0

    @property
    def asked(self) -> Asked:
        """Everything so far, in the order in which the first of each was answered."""
        return Asked(
            requests=tuple(
                Request(method=method, detail=detail, answer=answer, count=count)
                for (method, detail, answer), count in self._counts.items()
            ),
            unlisted=self._unlisted,
            refused=tuple(
                Attempt(kind=kind, detail=detail, count=count)
                for (kind, detail), count in self._refused.items()
            ),
        )

    async def ask(self, method: str, params: dict[str, Json]) -> Answered | NotAnswered:
        """Have the host answer, and note how."""
        answer: Answered | NotAnswered | None = None
        try:
            answer = await self._host.ask(method, params)
            if isinstance(answer, NotAnswered) and answer.kind == "violation":
                self._alarm(Event(kind="host_call", detail=f"{one_line(method, 64)}: {answer.message}"))
            return answer
        finally:
            self._note(method, params, answer)

    def _note(self, method: str, params: dict[str, Json], answer: Answered | NotAnswered | None) -> None:
        for each in answer.refused if answer is not None else ():
            what = (each.kind, each.detail)
            if what in self._refused or len(self._refused) < MOST:
                self._refused[what] = self._refused.get(what, 0) + each.count
        line = (one_line(method, 64), mask_text(one_line(_detail(method, params), _LONGEST)), _said(answer))
        if line in self._counts or len(self._counts) < MOST:
            self._counts[line] = self._counts.get(line, 0) + 1
        else:
            self._unlisted += 1


def _detail(method: str, params: dict[str, Json]) -> str:
    match method, params:
        case "exec", {"argv": [str(program), *arguments]}:
            several = "argument" if len(arguments) == 1 else "arguments"
            return f"{one_line(program, 120)}, {len(arguments)} {several}"
        case "http", {"url": str(url)}:
            verb = params.get("method", "GET")
            return f"{one_line(verb, 20).upper() if isinstance(verb, str) else '?'} {_without_query(url)}"
        case "call", {"operation": str(name)}:
            return one_line(name, 64)
        case "execute", {"module": str(name), "op": str(operation)}:
            return f"{one_line(name, 64)}.{one_line(operation, 64)}"
        case "module.register" | "emit", {"name": str(name)}:
            return one_line(name, 64)
        case "log", {"level": str(level)}:
            return one_line(level, 20)
        case _:
            return ""


def _without_query(url: str) -> str:
    """Scheme, host and path. Who stands before the host is left out too, and a part of the path that may be a key."""
    scheme, slashes, rest = url[:2_048].partition("?")[0].partition("#")[0].partition("://")
    authority, *parts = rest.replace("\\", "/").split("/")
    shown = (MASK if _KEY.fullmatch(part) else part for part in parts)
    return f"{scheme}{slashes}{'/'.join((authority.rpartition('@')[2], *shown))}"


def _said(answer: Answered | NotAnswered | None) -> str:
    match answer:
        case None:
            return "interrupted"
        case NotAnswered(name=name, kind="failed"):
            return name
        case NotAnswered(name=name, kind=kind):
            return f"{name} ({kind})"
        case Answered(value={"status": int(status)}):
            return f"answered {status}"
        case Answered():
            return "answered"
