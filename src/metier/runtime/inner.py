"""Calls that are made inside of running calls: by the code of a skill, or by an agent that a skill started.

Such a call has a parent, is one deeper than it, and is made by the skill (or the agent) on behalf of whoever stands behind the
parent, so it can do no more than both may. It is judged and recorded like any other, and ends with its parent, unless it was
started to go on by itself; then it ends with the runtime.
"""

import secrets
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Final, TypeAlias, final

import anyio
from anyio.abc import TaskGroup

from metier.gate.principals import BRAIN, FOR_OTHERS
from metier.model.call import Call, Cause, Principal, Surroundings
from metier.model.digest import Json
from metier.model.outcome import Failed, Outcome, Refused

Run: TypeAlias = Callable[[Call], Awaitable[Outcome]]
_ROLES: Final = frozenset({"agent"})
_MOST_CAUSED: Final = 4_096
_BY_NOBODY: Final = Cause()


@final
class Begun:
    """A call that goes on by itself."""

    def __init__(self, call: Call) -> None:
        self.call = call
        self.ended = anyio.Event()
        self.outcome: Outcome = Failed(
            call_id=call.id, code="interrupted", message="the runtime was closed meanwhile"
        )


@final
class Inner:
    """Makes them, for the calls that are under way here."""

    def __init__(self, run: Run, tasks: TaskGroup) -> None:
        self._run = run
        self._tasks = tasks
        self._under_way: dict[str, Call] = {}
        self._caused: OrderedDict[str, Cause] = OrderedDict()
        """The last calls that were set off by firings: what is told of them, or because of them, often comes after their end."""

    @contextmanager
    def under(self, call: Call) -> Generator[None]:
        """For as long as `call` runs, others can be made inside of it."""
        self._under_way[call.id] = call
        if call.cause.firings:
            self._caused[call.id] = call.cause
            if len(self._caused) > _MOST_CAUSED:
                self._caused.popitem(last=False)
        try:
            yield
        finally:
            self._under_way.pop(call.id, None)

    def depth_in(self, parent: str) -> int:
        """How deep a call lies that is made inside of `parent`; just below the top where that is over already."""
        outer = self._under_way.get(parent)
        return outer.depth + 1 if outer is not None else 1

    def cause_of(self, call_id: str) -> Cause:
        """What set a call off that was made here, also where it is over already."""
        return self._caused.get(call_id, _BY_NOBODY)

    async def call(self, inside: str, skill: str, tool: str, arguments: dict[str, Json]) -> Outcome:
        """A call that the code of `skill` makes."""
        outer = self._under_way.get(inside)
        if outer is None:
            return Refused(
                call_id=inside, code="not_runnable", reasons=("it is part of no call that runs",), remedy=""
            )
        return await self._run(inner_call(outer, by_skill(skill, outer.principal), tool, arguments))

    async def run(self, call: Call) -> Outcome:
        """One that was made already (`inner_call`)."""
        return await self._run(call)

    def start(self, call: Call) -> Begun:
        """Have it go on by itself."""
        begun = Begun(call)

        async def work() -> None:
            try:
                begun.outcome = await self._run(call)
            finally:
                begun.ended.set()

        self._tasks.start_soon(work)
        return begun


def inner_call(outer: Call, principal: Principal, tool: str, arguments: Json) -> Call:
    """A call inside of `outer`."""
    return Call(
        id=f"call_{secrets.token_hex(12)}",
        principal=principal,
        tool=tool,
        arguments=arguments,
        parent=outer.id,
        depth=outer.depth + 1,
        unattended=outer.unattended,
        cause=outer.cause,
    )


def made_for(
    principal: Principal,
    tool: str,
    arguments: dict[str, Json],
    parent: str | None,
    depth: int,
    surroundings: Surroundings,
    *,
    unattended: bool,
    cause: Cause = _BY_NOBODY,
    id: str = "",
) -> Call:
    """A call that a module makes for `principal`."""
    return Call(
        id=id or f"call_{secrets.token_hex(12)}",
        principal=principal,
        tool=tool,
        arguments=arguments,
        parent=parent,
        depth=depth,
        surroundings=surroundings,
        unattended=unattended,
        cause=cause,
    )


def by_skill(name: str, asked: Principal) -> Principal:
    """The code of a skill, for whoever stands behind `asked`, and bound by what binds that one."""
    return Principal(
        id=f"skill:{name}",
        kind="skill",
        on_behalf_of=_behind(asked),
        roles=_ROLES,
        scopes=asked.scopes,
        token=asked.token,
    )


def by_agent(name: str, asked: Principal) -> Principal:
    """An agent of the workspace, for whoever stands behind `asked`."""
    return Principal(
        id=f"{BRAIN}{name}",
        kind="agent",
        on_behalf_of=_behind(asked),
        roles=_ROLES,
        scopes=asked.scopes,
        token=asked.token,
    )


def _behind(asked: Principal) -> str | None:
    """Who is known by himself: skills, triggers and agents of the workspace have no rights but another's."""
    known = asked.kind == "human" or (asked.kind == "agent" and not asked.id.startswith(FOR_OTHERS))
    return asked.id if known else asked.on_behalf_of
