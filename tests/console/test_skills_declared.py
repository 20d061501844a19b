"""What a skill would do by itself: its hooks, and the triggers and schedules that a person accepts as they are shown."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest

from machine import write_skill
from seen_page import visiting
from serve_kit import Premises

ACTION = {"id": "tidy", "type": "code", "language": "python", "code": "return 1"}
MESSAGE: dict[str, Any] = {
    "type": "message",
    "patterns": ["tidy up"],
    "actionId": "tidy",
    "name": "on <b>asking",
}
WIDE: dict[str, Any] = {
    "type": "message",
    "patterns": [".*"],
    "matchMode": "regex",
    "actionId": "tidy",
    "name": "always",
}
DAILY: dict[str, Any] = {"type": "interval", "intervalMs": 600_000, "actionId": "tidy", "name": "daily"}


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    return Premises(tmp_path, monkeypatch)


def desk(folder: Path, **declared: Any) -> None:
    (folder / "desk").mkdir(parents=True, exist_ok=True)
    about = {
        "id": "desk",
        "description": "Keeps things.",
        "instructions": "Do it.",
        "actions": [ACTION],
        **declared,
    }
    (folder / "desk" / "skill.json").write_text(json.dumps(about), encoding="utf-8")


def test_what_a_skill_declares_is_accepted_exactly_as_it_is_shown(premises: Premises) -> None:
    desk(premises.machine.skills, triggers=[MESSAGE, WIDE], schedules=[DAILY])

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            page = await owner.see("/skills/desk")
            part = page.section("own-title")
            assert "2 triggers" in part.text and "1 schedule" in part.text and "on <b>asking" in part.text
            assert "cannot be accepted with the others" in part.text and '"intervalMs": 600000' in part.text
            assert not part.all("b")
            form = page.form("Accept these triggers")
            done = await owner.send(form)
            assert [each["name"] for each in done["value"]["adopted"]] == ["desk: on <b>asking"], done
            assert (await owner.send(page.form("Accept these schedules")))["outcome"] == "completed"
            desk(premises.machine.skills, triggers=[{**MESSAGE, "patterns": ["tidy all of it"]}])
            await house.engine.reload()
            other = await owner.send(form)
            assert other["outcome"] == "failed" and "changed since it was shown" in other["value"]["message"]

    anyio.run(main)


def test_nothing_can_be_accepted_of_a_skill_that_waits_for_trust_nor_by_who_may_only_look(
    premises: Premises,
) -> None:
    desk(premises.machine.project / "skills", triggers=[MESSAGE])
    premises.person("vera", "viewer")

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner, visiting(house, "vera") as vera:
            page = await owner.see("/skills/desk")
            assert "once the skill can be used" in page.section("own-title").text
            assert "Accept" not in str([each.words for each in page.forms])
            await owner.send(page.form("Trust exactly"))
            assert "Accept these triggers" in str(
                [each.words for each in (await owner.see("/skills/desk")).forms]
            )
            theirs = await vera.see("/skills/desk")
            assert not theirs.forms and "skills:trust" in theirs.section("own-title").text

    anyio.run(main)


def test_the_hooks_that_its_bytes_bring_are_named_before_it_is_trusted(premises: Premises) -> None:
    folder = write_skill(premises.machine.project / "skills" / "guard")
    (folder / "hooks" / "openclaw").mkdir(parents=True)
    (folder / "hooks" / "openclaw" / "handler.ts").write_text("export default () => {};\n", encoding="utf-8")
    (folder / "hooks" / "openclaw" / "HOOK.md").write_text(
        '---\nname: guard\ndescription: Looks.\nmetadata: {"openclaw": {"events": ["tool:after"]}}\n---\n',
        encoding="utf-8",
    )

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            part = (await owner.see("/skills/guard")).section("own-title").text
            assert "hooks/openclaw/handler.ts" in part and "tool:after" in part

    anyio.run(main)
