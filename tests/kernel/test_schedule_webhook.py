"""A schedule's webhook leaves the machine as a call: judged by the gate, and on the record before it is posted."""

import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import pytest

from machine import Machine
from metier.kernel.schedule_notice import NOTIFY, PostedWebhooks
from metier.model.digest import Json
from metier.model.outcome import Completed, Refused
from metier.record.database import Database
from metier.record.search import Query, search
from metier.runtime import Runtime
from metier.runtime.as_owner import call_as_owner

URL = "https://hooks.example/done"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture
def posted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    made: list[str] = []

    async def webhook(self: PostedWebhooks, url: str, payload: dict[str, Json]) -> str:
        del self, payload
        made.append(url)
        return ""

    monkeypatch.setattr(PostedWebhooks, "webhook", webhook)
    return made


def fired(machine: Machine) -> dict[str, Any]:
    """A schedule that skips at once, and tells a webhook of that."""

    async def main() -> dict[str, Any]:
        async with Runtime.open(
            home=str(machine.state), project=str(machine.project), watch=False, host=True
        ) as runtime:
            schedule: dict[str, Json] = {
                "name": "brief",
                "type": "once",
                "timestamp": datetime.fromtimestamp(time.time() + 0.3, UTC).isoformat(),
                "tool": "fs_read/execute",
                "conditions": {"environment": ["elsewhere"]},
                "notifications": {"onSkip": [{"type": "webhook", "url": URL}]},
            }
            made = await call_as_owner(runtime, "schedules.create", {"schedule": schedule})
            assert isinstance(made, Completed)
            assert isinstance(made.value, dict)
            with anyio.fail_after(30):
                while True:
                    shown = await call_as_owner(runtime, "schedules.get", {"id": made.value["id"]})
                    assert isinstance(shown, Completed)
                    with Database.open(str(machine.state / "state.db")) as database:
                        found = search(database, Query(tool=NOTIFY), 100)
                    if any(each.event != "skill_execution_started" for each in found):
                        break
                    await anyio.sleep(0.05)
            nobody = await runtime.call(NOTIFY, {"url": URL, "about": {}})
            assert isinstance(nobody, Refused), "an agent has no part in it"
            return {"id": made.value["id"], "record": found}

    return anyio.run(main)


def test_a_webhook_of_a_schedule_is_a_call_of_its_own_on_the_record(
    machine: Machine, posted: list[str]
) -> None:
    told = fired(machine)
    assert posted == [URL]
    events = sorted((each.event, each.principal) for each in told["record"])
    who = f"agent:schedule/{told['id']}"
    assert events == [("skill_executed", who), ("skill_execution_started", who)]


def test_a_rule_of_the_operator_keeps_a_webhook_from_being_posted(
    machine: Machine, posted: list[str]
) -> None:
    machine.state.mkdir(mode=0o700)
    (machine.state / "policy.toml").write_text(
        '[[rule]]\ndecision = "deny"\nbecause = "nothing is told to strangers"\ntool = "schedules.notify"\n',
        encoding="utf-8",
    )
    told = fired(machine)
    assert posted == []
    assert [(each.event, each.principal) for each in told["record"]] == [
        ("skill_execution_blocked", f"agent:schedule/{told['id']}")
    ]
