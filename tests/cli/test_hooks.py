"""`metier hooks list` and `metier prompt --bootstrap`: what is fired, whose word counts, and what is said where it is not."""

import json
from pathlib import Path

import pytest

from lookout import Lookout, hook_text
from metier.doors.cli import exits

REMINDER = "export default async (e: any) => { e.context.bootstrapFiles.push({ path: 'R.md', content: 'remember' }) }"


@pytest.fixture
def lookout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lookout:
    return Lookout(tmp_path, monkeypatch)


def test_every_hook_is_listed_with_what_it_is_fired_on(lookout: Lookout) -> None:
    machine = lookout.machine
    assert "No trusted skill has a hook." in machine.metier("hooks", "list").stderr
    lookout.guard()
    lookout.guard(name="late", text=hook_text('["tool:after"]'))
    lookout.guard(name="off", text=hook_text(more="enabled: false\n"))
    lookout.guard(name="stranger", trusted=False)
    lookout.gate("guard")
    done = machine.metier("hooks", "list")
    assert done.stdout.splitlines() == [
        "guard  hooks/openclaw/handler.ts  has to agree: agent, message, tool",
        "late  hooks/openclaw/handler.ts  looks on: tool:after",
        "off  hooks/openclaw/handler.ts  not fired: its HOOK.md says that it is not enabled",
    ]
    assert "stranger brings hooks and none of them is fired" in done.stderr
    rows = [json.loads(line) for line in machine.metier("hooks", "list", "--json").stdout.splitlines()]
    assert [(row["skill"], row["gate"]) for row in rows] == [("guard", True), ("late", False), ("off", False)]


def test_who_trusts_a_skill_is_shown_what_its_hooks_will_see(lookout: Lookout) -> None:
    lookout.guard(trusted=False, text=hook_text('["tool:before", "message"]'))
    shown = lookout.machine.metier("skills", "trust", "guard", "--yes").stdout
    assert "    hook: hooks/openclaw/handler.ts, on message, tool:before: sees what happens there" in shown
    assert "hook:" not in lookout.machine.metier("skills", "trust", "kettle", "--yes").stdout


def test_a_gate_without_a_hook_is_a_problem_and_said(lookout: Lookout) -> None:
    lookout.guard(text=hook_text('["tool:after"]'))
    lookout.gate("guard", "nobody")
    done = lookout.machine.metier("hooks", "list", check=exits.PROBLEM)
    for name in ("guard", "nobody"):
        assert f"[hooks] gate names '{name}', and it has no hook on tool:before" in done.stderr


def test_the_prompt_shows_what_hooks_add_where_that_is_asked_for(lookout: Lookout) -> None:
    lookout.guard(REMINDER, name="keep-notes")
    plain = lookout.machine.metier("prompt", "--system", "Be kind.").stdout
    shown = lookout.machine.metier("prompt", "--system", "Be kind.", "--bootstrap").stdout
    assert "keep-notes)" not in plain
    assert "## R.md (skill keep-notes)\n\nremember" in shown
    assert shown.startswith("Be kind.")
    lookout.guard("export default async () => { throw new Error('no') }", name="keep-notes")
    done = lookout.machine.metier("prompt", "--bootstrap")
    assert "failed on agent:bootstrap: raised" in done.stderr
