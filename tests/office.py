"""A runtime on a machine of its own, in which people and others ask for the operations that are for operators."""

import json
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec

from boxes import Box
from machine import Machine
from metier.catalog.here import owner
from metier.model.call import Call, Principal
from metier.model.outcome import Completed, Failed, Outcome, Refused
from metier.model.role import EXECUTE, Registered
from metier.record.chain import Record
from metier.record.database import Database
from metier.record.principals import add_principal
from metier.runtime import sandboxes
from metier.runtime.engine import Engine, opened

OWNER: Final = Principal(id=owner(), kind="human", roles=frozenset({"owner"}))
AGENT: Final = Principal(id="agent:cli", kind="agent", on_behalf_of=owner(), roles=frozenset({"agent"}))
SKILL: Final = Principal(
    id="skill:writing-skills", kind="skill", on_behalf_of=owner(), roles=frozenset({"agent"})
)
PEOPLE: Final = {"opal": "operator", "abe": "approver", "vera": "viewer"}


def person(name: str) -> Principal:
    return Principal(id=f"human:{name}", kind="human")


OPERATOR, APPROVER, VIEWER = map(person, PEOPLE)
NARROW: Final = Principal(id=owner(), kind="human", scopes=frozenset({EXECUTE}))
"""The owner, by something that lets him execute and nothing else."""


class Office:
    def __init__(self, top: Path, monkeypatch: Any, *, boxed: bool = True) -> None:
        self.machine = Machine(top)
        self.box = Box()
        monkeypatch.setenv("HOME", str(self.machine.home))
        monkeypatch.setenv("PATH", str(self.machine.bin))
        monkeypatch.delenv("METIER_HOME", raising=False)
        monkeypatch.chdir(self.machine.project)
        if boxed:
            monkeypatch.setattr(
                sandboxes, "make_sandboxes", lambda settings, tasks=None, watch=None: ((self.box,), ())
            )
        self.path = self.machine.settings().database
        with self.database() as database:
            for name, role in PEOPLE.items():
                new = Registered(id=f"human:{name}", kind="human", roles=frozenset({role}))
                assert add_principal(database, new, by=owner(), owner=owner()) == ""
        self.engine: Engine

    def database(self) -> Database:
        return Database.open(self.path)

    def write(self, name: str = "tea", text: str = "Pour.", *, binaries: tuple[str, ...] = ()) -> Path:
        """A skill in the project, which nobody vouches for."""
        folder = self.machine.project / "skills" / name
        folder.mkdir(parents=True, exist_ok=True)
        needs = {"openclaw": {"requires": {"bins": [*binaries]}}}
        metadata = f"metadata: {json.dumps(needs)}\n" if binaries else ""
        (folder / "SKILL.md").write_text(
            f"---\nname: {name}\ndescription: Makes {name}.\n{metadata}---\n\n{text}\n", encoding="utf-8"
        )
        return folder

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator["Office"]:
        async with opened(lambda: self.machine.settings(), watch=False) as engine:
            self.engine = engine
            yield self

    def run(self, act: Callable[["Office"], Awaitable[None]]) -> None:
        async def main() -> None:
            with anyio.fail_after(50):
                async with self.opened():
                    await act(self)

        anyio.run(main)

    async def call(self, tool: str, by: Principal = OWNER, /, **arguments: Any) -> Outcome:
        call = Call(id=f"call_{secrets.token_hex(12)}", principal=by, tool=tool, arguments=arguments)
        return await self.engine.run(call)

    async def ask(self, tool: str, by: Principal = OWNER, /, **arguments: Any) -> Any:
        outcome = await self.call(tool, by, **arguments)
        assert isinstance(outcome, Completed), outcome
        return outcome.value

    async def no(self, tool: str, by: Principal = OWNER, /, **arguments: Any) -> tuple[str, str]:
        """The code and the words of what was not done."""
        outcome = await self.call(tool, by, **arguments)
        if isinstance(outcome, Refused):
            return outcome.code, "; ".join(outcome.reasons)
        assert isinstance(outcome, Failed), outcome
        assert isinstance(outcome.value, dict), outcome
        return str(outcome.value["code"]), str(outcome.value["message"])

    def records(self) -> list[Record]:
        with self.database() as database, database.reading() as connection:
            rows = connection.execute("SELECT body FROM audit ORDER BY seq").fetchall()
        return [msgspec.json.decode(body, type=Record) for (body,) in rows]
