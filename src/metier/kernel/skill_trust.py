"""Operations of the module `skills` for operators: look at a skill, trust exactly what was looked at, take that back, and switch any
skill off and on.

A skill that has to be run before it can be read is trusted in two steps, as at a terminal: its bytes, and then what it told.
"""

from contextlib import suppress
from typing import Final, final

from anyio import to_thread

from metier.catalog.catalog import Catalog
from metier.catalog.entrust import entrust
from metier.catalog.listed import Listed
from metier.catalog.probed import Probed, kept
from metier.catalog.trusting import SHIPS, Taken, give, meant, take, unread
from metier.catalog.trusting_server import ServerTools
from metier.dialects.names import name_problem
from metier.errors import MetierError
from metier.kernel.operation import Asked, Offered, OperationError
from metier.kernel.operators import (
    BAD_PARAMS,
    FORBIDDEN,
    Desk,
    for_operators,
    sayable,
    taking,
    text,
    though_unrecorded,
)
from metier.kernel.skill_review import next_step, reviewed, told_digest, untakeable
from metier.model.digest import Json
from metier.model.role import READ_AUDIT, STEER, TRUST
from metier.model.text import one_line
from metier.record.disabling import disable, enable
from metier.record.trust import Trusts, TrustStore

UNKNOWN: Final = "E_SKILLS_UNKNOWN"
CHANGED: Final = "E_SKILLS_CHANGED"
NOT_TRUSTED: Final = "E_SKILLS_NOT_TRUSTED"
MOST_TOLD: Final = 64
"""What so many servers told is remembered until somebody lets it in; who looked longer ago looks again."""
_NAME: Final[dict[str, Json]] = {"type": "string", "minLength": 1, "maxLength": 214}
_DIGEST: Final[dict[str, Json]] = {"type": "string", "pattern": "^sha256:[0-9a-f]{64}$"}
_TOLD: Final[dict[str, Json]] = {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"}
_LONGEST_WHY: Final = 2_000
_WHY: Final[dict[str, Json]] = {"type": "string", "maxLength": _LONGEST_WHY}
_YES: Final[dict[str, Json]] = {"type": "boolean"}


@final
class SkillTrust:
    """Belongs to one loop."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._told: dict[str, Probed] = {}
        """What servers told whoever looked last, by the digest of their bytes. It counts for nothing before it is let in."""

    def operations(self) -> tuple[Offered, ...]:
        """`skills.review`, `trust`, `untrust`, `switch_off` and `switch_on`."""
        return (
            for_operators(
                "skills.review",
                self._review,
                "Everything a person must see before he trusts a skill, as its bytes are now; with `ask`, an MCP server is run and asked.",
                taking(["name"], name=_NAME, ask=_YES),
                permission=READ_AUDIT,
                effect="read",
            ),
            for_operators(
                "skills.trust",
                self._trust,
                "Trust exactly the bytes of a skill that were looked at, and what it told of itself.",
                taking(["name", "digest"], name=_NAME, digest=_DIGEST, told=_TOLD),
                permission=TRUST,
                risk="high",
            ),
            for_operators(
                "skills.untrust",
                self._untrust,
                "Take back the trust in a skill, at once and until it is trusted again.",
                taking(["name"], name=_NAME),
                permission=TRUST,
            ),
            for_operators(
                "skills.switch_off",
                self._switch_off,
                "Let a skill be used no more, by any way: its running calls are ended, waiting ones refused.",
                taking(["name"], name=_NAME, why=_WHY),
                permission=STEER,
            ),
            for_operators(
                "skills.switch_on",
                self._switch_on,
                "Let a skill be used again that was switched off, by a person or after a violation.",
                taking(["name"], name=_NAME),
                permission=STEER,
            ),
        )

    async def _review(self, asked: Asked) -> Json:
        await self._desk.refresh()
        ask = asked.arguments.get("ask") is True
        taken = await to_thread.run_sync(self._taken, text(asked, "name"))
        if not isinstance(taken, Taken):
            return sayable(untakeable(*taken))
        told = await to_thread.run_sync(kept, taken.snapshot)
        before, problem = told, ""
        if ask and taken.server:
            told, problem = await self._ask(taken, asked)
        return await to_thread.run_sync(self._shown, taken, told or before, before, problem)

    async def _ask(self, taken: Taken, asked: Asked) -> tuple[Probed | None, str]:
        """What the server tells, or why it told nothing."""
        by = await to_thread.run_sync(self._desk.decider, asked)
        if TRUST not in by.rights:
            raise OperationError(
                FORBIDDEN,
                f"to run a server takes the right {TRUST!r}, which {by.id!r} lacks; look without `ask`",
            )
        digest = taken.measured.digest
        if not taken.stays:
            return None, "its bytes are not trusted yet; trust them first, then ask it for its tools"
        told = await self._desk.ask(taken.each, digest)
        if isinstance(told, str):
            return None, f"it could not be asked for its tools: {told}"
        self._told.pop(digest, None)
        while len(self._told) >= MOST_TOLD:
            del self._told[next(iter(self._told))]
        self._told[digest] = told
        return told, ""

    def _shown(self, taken: Taken, told: Probed | None, before: Probed | None, problem: str) -> Json:
        settings = self._desk.settings()
        tools = ServerTools(taken, settings)
        read = (tools.read(told) if taken.server and told is not None else None) or taken.declared
        hooks = self._desk.hooks(taken.declared, taken.snapshot)
        shown = reviewed(taken, read, settings, told=told, before=before, hooks=hooks, problem=problem)
        if shown["step"] == "let_in" and taken.server:  # before the yes, as it will be after it
            shown["names"] = [*tools.clashes(read, self._desk.catalog())]
        return sayable(shown)

    async def _trust(self, asked: Asked) -> Json:
        await self._desk.refresh()
        name = text(asked, "name")
        await to_thread.run_sync(self._do_trust, asked)
        self._told.pop(text(asked, "digest"), None)
        await self._desk.refresh()
        return await to_thread.run_sync(self._now_trusted, name, text(asked, "digest"))

    def _do_trust(self, asked: Asked) -> None:
        """Blocking."""
        desk, settings, said = self._desk, self._desk.settings(), text(asked, "told")
        taken = self._taken(text(asked, "name"))
        if not isinstance(taken, Taken):
            raise OperationError(NOT_TRUSTED, taken[1])
        if taken.measured.digest != text(asked, "digest"):
            raise OperationError(
                CHANGED, f"{taken.each.name}: its bytes are not those you looked at any more; look again"
            )
        let_in = kept(taken.snapshot)
        heard = self._told.get(taken.measured.digest) if taken.server else None
        by = desk.decider(asked)
        if taken.each.name in self._trusts().disabled and STEER not in by.rights:
            raise OperationError(
                FORBIDDEN,
                f"{taken.each.name} is switched off, and to trust it would lift that, which takes the right {STEER!r} that {by.id!r} "
                "lacks; let somebody who has it look at why, and use `skills.switch_on`",
            )
        if taken.server and said and heard is not None and said == told_digest(heard):
            problem = (
                self._let_in(taken, heard, asked) if taken.stays else "its bytes are not trusted any more"
            )
        elif said != ("" if taken.forgets else told_digest(let_in)):
            raise OperationError(
                CHANGED, f"{taken.each.name}: what it tells of itself is not what you looked at; look again"
            )
        elif taken.stays and not taken.server:
            problem = entrust(taken.each, taken.declared, taken.found, database=desk.database, by=by)
        else:
            problem = give(taken, settings, database=desk.database, by=by)
        if problem:
            raise OperationError(NOT_TRUSTED, f"{taken.each.name}: {problem}")

    def _let_in(self, taken: Taken, told: Probed, asked: Asked) -> str:
        tools = ServerTools(taken, self._desk.settings())
        problem = "it was not let in"
        try:
            problem = tools.let_in(told, database=self._desk.database, by=self._desk.decider(asked))
        finally:
            if problem:
                tools.as_before()
        return problem

    def _now_trusted(self, name: str, digest: str) -> Json:
        listed = _found(self._desk.catalog(), name)
        if listed is None or listed.skill is None:
            return {"name": name, "digest": digest, "trusted": True, "step": "none", **_state(listed)}
        step = next_step(listed, listed.skill, digest, self._trusts())
        return {"name": name, "digest": digest, "trusted": True, "step": step, **_state(listed)}

    async def _untrust(self, asked: Asked) -> Json:
        name = text(asked, "name")
        listed = _found(self._desk.catalog(), name)
        known = {each for each, _ in (await to_thread.run_sync(self._trusts)).trusted}
        if listed is None and name not in known:
            raise _unknown(name)
        if listed is not None and listed.root.kind == "bundled":
            raise OperationError(NOT_TRUSTED, f"{SHIPS}; switch it off instead (`skills.switch_off`)")
        folder = listed.folder if listed is not None else ""
        ended, unrecorded = await though_unrecorded(
            lambda: TrustStore(self._desk.database).revoke(name, by=asked.principal.id, path=folder), 0
        )
        return {
            "name": name,
            "trusted": False,
            "ended": ended,
            "unrecorded": unrecorded,
            **await self._state(name),
        }

    async def _switch_off(self, asked: Asked) -> Json:
        name = text(asked, "name")
        known = _found(self._desk.catalog(), name) is not None
        if not known and (problem := name_problem(name)):
            raise OperationError(BAD_PARAMS, f"{one_line(name, 80)!r} can be no skill's name: {problem}")
        why = (
            one_line(text(asked, "why"), _LONGEST_WHY) or "an operator disabled it"
        )  # told to who asks for that skill
        _, unrecorded = await though_unrecorded(
            lambda: disable(self._desk.database, name, why=why, by=asked.principal.id), None
        )
        return {
            "name": name,
            "off": True,
            "known": known,
            "unrecorded": unrecorded,
            **await self._state(name),
        }

    async def _switch_on(self, asked: Asked) -> Json:
        name = text(asked, "name")
        disabled = (await to_thread.run_sync(self._trusts)).disabled
        if name not in disabled and _found(self._desk.catalog(), name) is None:
            raise _unknown(name)
        lifted = await to_thread.run_sync(lambda: enable(self._desk.database, name, by=asked.principal.id))
        return {"name": name, "lifted": lifted, **await self._state(name)}

    async def _state(self, name: str) -> dict[str, Json]:
        """How it is now. That this cannot be read does not undo what was done."""
        with suppress(MetierError):
            await self._desk.refresh()
        return _state(_found(self._desk.catalog(), name))

    def _trusts(self) -> Trusts:
        return TrustStore(self._desk.database).all()

    def _taken(self, name: str) -> Taken | tuple[Listed, str]:
        """Its bytes as they are now; otherwise the skill, and why nobody can trust it. Blocking.

        Raises:
            OperationError: where there is no such skill.
        """
        settings, catalog = self._desk.settings(), self._desk.catalog()
        found = _found(catalog, name)
        if found is None:
            raise _unknown(name)
        listed = unread(meant(catalog, found), settings)
        taken = take(listed, settings, self._trusts())
        return taken if isinstance(taken, Taken) else (listed, taken)


def _found(catalog: Catalog, name: str) -> Listed | None:
    """The skill of this name, also one that is broken."""
    return catalog.get(name) or next((each for each in catalog.listed if each.name == name), None)


def _state(listed: Listed | None) -> dict[str, Json]:
    if listed is None:
        return {"status": "", "why": "there is no such skill here", "usable": False}
    return {"status": listed.shown, "why": listed.why, "usable": listed.shown == "usable"}


def _unknown(name: str) -> OperationError:
    return OperationError(
        UNKNOWN, f"there is no skill {one_line(name, 80)!r} here; the list of skills has all"
    )
