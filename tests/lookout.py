"""A machine with a tool and skills that bring hooks. What runs is decided by the test, or is real."""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from boxes import Box
from machine import Machine, write_skill
from metier.catalog.bundle import BundleStore
from metier.catalog.here import owner
from metier.catalog.hold import bind, declared_by, hold
from metier.model.job import Job, Report
from metier.model.outcome import Outcome
from metier.record.audit import AuditLog
from metier.record.chain import Record
from metier.record.database import Database
from metier.record.trust import TrustStore
from metier.record.verify import verify
from metier.runtime import Runtime, sandboxes

KETTLE = """---
name: kettle
description: Boils water.
metadata:
  metier:
    tools:
      - name: boil
        description: Boils so many cups.
        parameters:
          type: object
          properties: {cups: {type: integer}, note: {type: string}, api_key: {type: string}}
          additionalProperties: false
        effect: read
        risk: low
        entry: {kind: script, path: boil.js, language: javascript}
---

Boil it.
"""
BOIL_JS = (
    "export default async (params) => ({ cups: params.cups, token: 'ghp_0123456789abcdefghijklmnop' });\n"
)
BOIL = "kettle/boil"
PASS = "export default async () => {}\n"


def hook_text(events: str = '["tool:before"]', more: str = "") -> str:
    return (
        f'---\nname: h\ndescription: A hook.\n{more}metadata: {{"openclaw": {{"events": {events}}}}}\n---\n'
    )


class Lookout:
    """Everything below one temporary folder."""

    def __init__(self, top: Path, patch: pytest.MonkeyPatch) -> None:
        self.machine = Machine(top)
        patch.setenv("HOME", str(self.machine.home))
        patch.setenv("PATH", f"{self.machine.bin}:/usr/bin:/bin")
        patch.delenv("METIER_HOME", raising=False)
        patch.chdir(self.machine.project)
        self.patch = patch
        self.box = Box(report=self._report)
        self.says: Callable[[str, dict[str, Any]], Any] = lambda skill, event: event["context"]
        """What a hook of this skill leaves; a `Report` where it does not return. May be awaited."""
        (self.machine.state / "workspace").mkdir(parents=True, exist_ok=True)
        self.write("kettle/SKILL.md", KETTLE)
        self.write("kettle/boil.js", BOIL_JS)
        self.trust("kettle")

    def pretend(self) -> None:
        """Nothing really runs: what hooks leave is what `says` says."""
        self.patch.setattr(
            sandboxes, "make_sandboxes", lambda settings, tasks=None, watch=None: ((self.box,), ())
        )

    # --- what the operator does

    def write(self, file: str, text: str) -> None:
        path = self.machine.skills / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    def guard(
        self, handler: str = PASS, text: str | None = None, name: str = "guard", trusted: bool = True
    ) -> None:
        """A skill that brings a hook."""
        write_skill(self.machine.skills / name)
        self.write(f"{name}/hooks/openclaw/handler.ts", handler)
        if text is not None:
            self.write(f"{name}/hooks/openclaw/HOOK.md", text)
        if trusted:
            self.trust(name)

    def trust(self, name: str) -> None:
        """What a person does with `metier skills trust`."""
        settings = self.machine.settings()
        with Database.open(settings.database) as database:
            trust, bundles = TrustStore(database), BundleStore(settings.bundles)
            listed = self.machine.catalog().get(name)
            assert listed is not None and listed.skill is not None, listed
            bundles.take(listed.folder, now_ns=time.time_ns())
            held = hold(listed, trust=trust, bundles=bundles, now_ns=time.time_ns())
            assert held.bytes is not None
            snapshot = bundles.open(held.bytes.digest)
            assert snapshot is not None
            declared = declared_by(snapshot, listed.manifest, folder=listed.folder)
            assert declared is not None
            assert bind(listed, declared, held.bytes, trust=trust, how="operator", by=owner())

    def configured(self, text: str) -> None:
        (self.machine.state / "metier.toml").write_text(text, encoding="utf-8")

    def gate(self, *names: str) -> None:
        self.configured("[hooks]\ngate = [" + ", ".join(f'"{name}"' for name in names) + "]\n")

    # --- what programs do

    def opened(self, act: Callable[[Runtime], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            async with Runtime.open(project=str(self.machine.project), watch=False) as runtime:
                return await act(runtime)

        return anyio.run(main)

    def boil(self, **arguments: Any) -> Outcome:
        return self.opened(lambda runtime: runtime.call(BOIL, {"cups": 2, **arguments}))

    # --- what can be seen afterwards

    @property
    def events(self) -> list[tuple[str, dict[str, Any], dict[str, str]]]:
        """Of pretended hooks: the skill, the event, and the variables it saw."""
        jobs = [each for each in self.box.jobs if "hook" in each.context]
        return [(each.skill, each.context["hook"], dict(each.environment)) for each in jobs]  # type: ignore[misc]

    @property
    def fired(self) -> list[str]:
        return [f"{skill} {event['type']}:{event['action']}" for skill, event, _ in self.events]

    @property
    def boiled(self) -> int:
        return sum("hook" not in each.context for each in self.box.jobs)

    def records(self) -> list[Record]:
        with Database.open(self.machine.settings().database) as database:
            assert verify(database).ok
            return [each for each in AuditLog(database).tail(100) if each.call_id]

    async def _report(self, job: Job) -> Report:
        event = job.context.get("hook")
        if not isinstance(event, dict):
            return Report(ending="returned", value={"cups": 2, "token": "ghp_0123456789abcdefghijklmnop"})
        left = self.says(job.skill, event)
        if isinstance(left, Awaitable):
            left = await left
        return left if isinstance(left, Report) else Report(ending="returned", value=left)
