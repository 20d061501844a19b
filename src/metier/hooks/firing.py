"""Hooks are fired: around tool calls, on messages, and when an agent starts.

Each firing is a call of its own, through every stage and onto the record, made by the owner, who let the hook in. A gate hook is
waited for, and its word is one more layer's; where it fails the call that it was asked about is refused. All others look on
(`observers`): what they do, and whether they fail, changes nothing of what they look at.
"""

import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, final

import anyio
import msgspec
from anyio import CapacityLimiter, to_thread
from anyio.abc import TaskGroup

import metier.hooks.happening as happening
from metier.catalog.bundle import BundleStore
from metier.catalog.catalog import Catalog
from metier.hooks.bootstrap import MOST_ALTOGETHER, Added, Bootstrap, taken
from metier.hooks.gating import failed, shown_words, word_of
from metier.hooks.happening import Fired, Words
from metier.hooks.installed import Hook, installed
from metier.hooks.observers import Observers, Waiting
from metier.hooks.run import run_hook
from metier.model.call import Principal, ValidCall
from metier.model.hook import BootstrapFile, HookContext
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.model.ports import Around
from metier.model.text import one_line
from metier.model.verdict import Decision, Verdict
from metier.pipeline import House

SECONDS: Final = 30.0
"""For one firing, with the wait for its turn; the hook itself has ten (`run.LIMITS`)."""
_CLOSING: Final = 12.0
_AT_START: Final = 4
_BEFORE: Final = "tool:before"
_AFTER: Final = "tool:after"
_UNSORTED: Final = ""
"""The lane of what happened before anybody looked for hooks."""
_log: Final = logging.getLogger("metier.hooks")


@final
class Hooks:
    """Belongs to one loop."""

    def __init__(
        self, house: Callable[[], House], bundles: BundleStore, owner: Principal, tasks: TaskGroup
    ) -> None:
        """`house` gives the one that calls are made with now."""
        self._house = house
        self._bundles = bundles
        self._owner = owner
        self._reading = anyio.Lock()
        self._of: Catalog | None = None
        self._found: tuple[Hook, ...] = ()
        self.observers = Observers(self._observed, tasks)
        self.failures = 0
        """How many times one that looks on failed."""

    def around(self, catalog: Catalog, gate: tuple[str, ...]) -> Around | None:
        """Who stands around the calls of this catalog; None where it is known that nobody does.

        Args:
            gate: the skills whose hooks have to agree.
        """
        if not gate and catalog is self._of and not any(map(_about_tools, self._found)):
            return None
        return _AroundTools(self, catalog, gate)

    async def found(self, catalog: Catalog) -> tuple[Hook, ...]:
        """Every hook in it. Looked for once."""
        if catalog is not self._of:
            async with self._reading:
                if catalog is not self._of:
                    found = await to_thread.run_sync(installed, catalog, self._bundles)
                    for each in found:
                        if each.problem:
                            _log.warning("a hook of %r is not fired: %s", each.skill, each.problem)
                    self._found, self._of = found, catalog
                return self._found
        return self._found

    async def ask(self, hook: Hook, fired: Fired) -> Outcome:
        """Fire one and wait for it. Whatever happens is an outcome."""
        told = "it was not done"
        try:
            with anyio.move_on_after(SECONDS):
                return await run_hook(
                    self._house(),
                    skill=hook.skill,
                    hook=hook.file,
                    event=fired.event,
                    principal=self._owner,
                    tool_output=fired.tool_output,
                    export=hook.export,
                    inside=fired.inside,
                    fired=True,
                )
            told = f"it did not end within {SECONDS:g} s"
        except Exception:  # noqa: BLE001  one broken hook must not end the runtime, nor the calls of others
            _log.exception("a hook of %r broke Metier", hook.skill)
            told = "a fault of Metier; its log has the details"
        return Failed(call_id="", code="internal", message=told)

    def message(self, action: str, session: str, words: Words, *, inside: str = "") -> None:
        """A message was `received` or `sent`, by the call `inside`. Never waits."""
        waiting = Waiting(f"message:{action}", partial(happening.message, action, session, words, inside))
        self.tell(self._house().catalog, waiting)

    def tell(self, catalog: Catalog, waiting: Waiting) -> None:
        """Have every hook told that looks on and wants it. Never waits."""
        if catalog is not self._of or self.observers.busy(_UNSORTED):
            self.observers.tell(_UNSORTED, waiting)
            return
        for skill in dict.fromkeys(each.skill for each in self._found if each.wants(waiting.event)):
            if skill not in waiting.but:
                self.observers.tell(skill, waiting)

    async def bootstrap(self, files: Sequence[BootstrapFile], session: str) -> Bootstrap:
        """An agent starts: ask every hook what it would add."""
        given = tuple(files)
        fired = happening.bootstrap(session, given)
        wanting = [each for each in await self.found(self._house().catalog) if each.wants(fired.name)]
        outcomes: dict[int, Outcome] = {}
        limiter = CapacityLimiter(_AT_START)

        async def one(index: int, hook: Hook) -> None:
            async with limiter:
                outcomes[index] = await self.ask(hook, fired)

        async with anyio.create_task_group() as tasks:
            for index, hook in enumerate(wanting):
                tasks.start_soon(one, index, hook)
        added: list[Added] = []
        problems: list[str] = []
        room = MOST_ALTOGETHER
        for index, hook in enumerate(wanting):
            outcome = outcomes[index]
            if not isinstance(outcome, Completed):
                problems.append(self._failed(hook, fired, outcome))
                continue
            left = msgspec.convert(outcome.value, HookContext).bootstrap_files
            its, why = taken(hook.skill, given, left, room, added)
            added += its
            problems += why
            room -= sum(len(each.content) + len(each.path) for each in its)
        return Bootstrap(given=given, added=tuple(added), problems=tuple(problems))

    async def close(self) -> None:
        """Let those that wait end, within bounds."""
        await self.observers.close(_CLOSING)

    async def _observed(self, lane: str, waiting: Waiting) -> None:
        """Have the hooks of one skill told; of something that happened before anybody looked for hooks, every skill that wants it."""
        try:
            found = await self.found(self._house().catalog)
            wanting = [each for each in found if each.wants(waiting.event) and each.skill not in waiting.but]
            if lane != _UNSORTED:
                wanting = [each for each in wanting if each.skill == lane]
            fired = await to_thread.run_sync(waiting.make) if wanting else None
        except Exception:  # noqa: BLE001  who looks on ends nothing
            self.failures += 1
            _log.exception("what happened (%s) could not be told to hooks", waiting.event)
            return
        for hook in wanting:
            if fired is not None and not isinstance(outcome := await self.ask(hook, fired), Completed):
                self._failed(hook, fired, outcome)

    def _failed(self, hook: Hook, fired: Fired, outcome: Outcome) -> str:
        self.failures += 1
        why = f"the hook {hook.file} of {one_line(hook.skill, 80)!r} failed on {fired.name}: {_why(outcome)}"
        _log.warning("%s", why)
        return why


@final
class _AroundTools:
    """The hooks around the calls of one catalog."""

    def __init__(self, hooks: Hooks, catalog: Catalog, gate: tuple[str, ...]) -> None:
        self._hooks = hooks
        self._catalog = catalog
        self._gate = gate

    async def before(self, valid: ValidCall) -> Verdict | Refused | None:
        if not happening.is_told(valid):
            return None
        try:
            return await self._said(valid)
        except Exception:  # noqa: BLE001  whatever breaks here is a no where somebody has to agree
            _log.exception("hooks could not be asked about call %s", valid.call.id)
            return failed(self._gate[0], "a fault of Metier; its log has the details") if self._gate else None

    async def _said(self, valid: ValidCall) -> Verdict | None:
        found = await self._hooks.found(self._catalog)
        said: Verdict | None = None
        if self._gate:
            fired = await to_thread.run_sync(partial(happening.before, valid, gate=True))
            for name in self._gate:
                word = await self._word(name, found, fired)
                said = word if said is None else said | word
                if said.decision is Decision.DENY:
                    return said
        return said

    async def begins(self, valid: ValidCall) -> None:
        if happening.is_told(valid):
            self._tell(valid, Waiting(_BEFORE, partial(happening.before, valid), self._gate))

    def after(self, valid: ValidCall, outcome: Completed | Failed) -> None:
        if happening.is_told(valid):
            self._tell(valid, Waiting(_AFTER, partial(happening.after, valid, outcome)))

    def _tell(self, valid: ValidCall, waiting: Waiting) -> None:
        try:
            self._hooks.tell(self._catalog, waiting)
        except Exception:  # noqa: BLE001  who looks on ends nothing
            _log.exception("hooks could not be told of call %s", valid.call.id)

    async def _word(self, name: str, found: tuple[Hook, ...], fired: Fired) -> Verdict:
        """What the gate hooks of one skill say. That there is none is no word for anything, and one that is broken might be one."""
        own = [each for each in found if each.skill == name]
        asked = [each for each in own if each.wants(_BEFORE)]
        if why := "; ".join(each.problem for each in own if each.broken or (each.problem and not asked)):
            return failed(name, why)
        if not asked:
            why = "[hooks] gate names it, and there is no such skill that is trusted, can be used and has a hook on"
            return failed(name, f"{why} {_BEFORE}")
        if fired.cut:
            return failed(name, f"it cannot be shown arguments of more than {happening.MOST_PARAMS:,} bytes")
        said = word_of(name, await self._hooks.ask(asked[0], fired), fired.hidden)
        for each in asked[1:]:
            if said.decision is not Decision.DENY:
                said |= word_of(name, await self._hooks.ask(each, fired), fired.hidden)
        return said


def _about_tools(hook: Hook) -> bool:
    return hook.wants(_BEFORE) or hook.wants(_AFTER)


def _why(outcome: Outcome) -> str:
    match outcome:
        case Failed(code=code, message=message):
            return shown_words(f"{code}: {message}")
        case Refused(reasons=reasons) | Pending(reasons=reasons):
            return shown_words("; ".join(reasons))
        case Completed():
            return ""
