"""A machine with Amber's skills on it, their own text or ours, and a model that calls them through real sandboxes."""

import json
import os
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import structs

from machine import Machine, approve_all
from metier.catalog.here import owner
from metier.host.call_log import read_log
from metier.model.call import Call, Surroundings
from metier.model.outcome import Outcome
from metier.record.database import Database
from metier.record.level import set_level
from metier.runtime import Runtime

_SEEDS = Path(__file__).parents[2] / "shared" / "seeds"


def seed_skill(title: str) -> dict[str, str]:
    """SKILL.md and handler.js of one skill, as Amber's document prints them; the test is skipped where that is not there."""
    found = sorted(_SEEDS.glob("000_*.txt"))
    if not found:
        pytest.skip(f"Amber's document is not at {_SEEDS}")
    section = re.split(rf"^## {title}$", found[0].read_text(encoding="utf-8"), flags=re.MULTILINE)[1]
    texts = {}
    for name in ("SKILL.md", "handler.js"):
        block = re.search(rf"^### {re.escape(name)}\n```\w+\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
        assert block is not None, f"{title} has no {name}"
        texts[name] = block[1]
    return texts


def amber_skill(
    name: str, handler: str, parameters: dict[str, Any] | None = None, **amber: Any
) -> dict[str, str]:
    """A skill in Amber's dialect that reads, unless it is said otherwise."""
    block = {
        "capabilities": ["read"],
        "timeout_ms": 5000,
        "permissions": {"local_binaries": []},
        "function_schema": {
            "name": name,
            "description": "Does it.",
            "parameters": parameters or {"type": "object", "properties": {}},
        },
        **amber,
    }
    head = f"---\nname: {name}\nversion: 1.0.0\ndescription: Does it.\nmetadata: {json.dumps({'amber': block})}\n---\n"
    return {"SKILL.md": head, "handler.js": handler}


class Phone:
    """Everything below one temporary folder. Agents there may act up to medium risk without being asked."""

    def __init__(self, top: Path, patch: pytest.MonkeyPatch) -> None:
        self.machine = Machine(Path(os.path.realpath(top)))
        self.patch = patch
        patch.setenv("HOME", str(self.machine.home))
        patch.setenv("PATH", "/usr/bin:/bin")
        patch.setenv("TZ", "Europe/Berlin")
        for name in ("METIER_HOME", "METIER_TIMEZONE", "METIER_CALDAV_URL", "OPENCLAW_GATEWAY_URL"):
            patch.delenv(name, raising=False)
        patch.chdir(self.machine.project)
        with Database.open(self.machine.settings().database) as database:
            set_level(database, "bounded_auto", by=owner())

    @property
    def calendar(self) -> Path:
        """Where `ical-query` keeps the primary calendar."""
        return self.machine.state / "workspace" / "calendar" / "calendar.ics"

    def install(self, name: str, files: dict[str, str]) -> None:
        folder = self.machine.skills / name
        folder.mkdir(parents=True)
        for file, text in files.items():
            (folder / file).write_text(text, encoding="utf-8")
        approve_all(self.machine.skills)

    def configure(self, toml: str) -> None:
        path = self.machine.state / "metier.toml"
        path.write_text(toml, encoding="utf-8")
        path.chmod(0o600)

    def write_calendar(self, text: str) -> None:
        for folder in (self.calendar.parents[1], self.calendar.parent):
            folder.mkdir(mode=0o700, exist_ok=True)
        self.calendar.write_bytes(text.encode())
        self.calendar.chmod(0o600)

    def open(self, work: Callable[[Runtime], Awaitable[Any]]) -> Any:
        async def opened() -> Any:
            async with Runtime.open(watch=False) as runtime:
                return await work(runtime)

        return anyio.run(opened)

    def call(self, tool: str, arguments: dict[str, Any], **around: Any) -> Outcome:
        """Through the whole gate, as an agent; `around` is what a door would know."""

        async def work(runtime: Runtime) -> Outcome:
            if not around:
                return await runtime.call(tool, arguments)
            made: Call = runtime._call(runtime._engine.seen.internal(tool), arguments)  # pyright: ignore[reportPrivateUsage]
            told = structs.replace(made, surroundings=Surroundings(**around))
            return await runtime._engine.run(told)  # pyright: ignore[reportPrivateUsage]

        return self.open(work)

    def asked(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """What a model that calls it is told."""
        function = {"name": tool, "arguments": json.dumps(arguments)}
        message = [{"id": "call_1", "type": "function", "function": function}]
        (answer,) = self.open(lambda runtime: runtime.handle(message))
        return json.loads(answer["content"])

    def logged(self, outcome: Outcome) -> list[Any]:
        log = read_log(str(self.machine.state), outcome.call_id)
        return [line.entry for line in log.lines] if log is not None else []
