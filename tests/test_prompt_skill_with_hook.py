"""Skills that are a text: two of OpenClaw's own as published, and one of ours with a hook and scripts beside its text.

The last has the shape in which agents are taught to write down what they learned: a reminder is added by a hook when an agent
starts, and scripts print it, look through a tool's output, and make the beginnings of a new skill.
"""

import json
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from machine import Machine
from metier.catalog.here import owner
from metier.hooks import run_hook
from metier.model.approval import Approval
from metier.model.call import Principal
from metier.model.outcome import Completed, Outcome, Pending, Refused
from metier.model.role import ROLES
from metier.record.database import Database
from metier.record.deciding import Decider, decide
from metier.runtime import Runtime

DECIDER = Decider(id=owner(), kind="human", rights=ROLES["owner"])
OWNER = Principal(id=owner(), kind="human", roles=frozenset({"owner"}))

TEXT = """---
name: keep-notes
description: "Write down what went wrong and what was learned. Use when: (1) a command fails, (2) the user corrects you."
metadata:
---

# Keep notes

Put a line into `notes/LEARNED.md`. Turn one that came up three times into a skill with `scripts/extract.sh NAME`.
"""
HOOK_TEXT = """---
name: keep-notes
description: "Reminds an agent that starts of its notes"
metadata: {"openclaw": {"emoji": "📓", "events": ["agent:bootstrap"]}}
---

# Reminder
"""
TYPESCRIPT = """import type { HookHandler } from 'openclaw/hooks';

const REMINDER = `## Notes\\nAfter the task: was something learned?`.trim();

const handler: HookHandler = async (event) => {
  if (!event || typeof event !== 'object') return;
  if (event.type !== 'agent' || event.action !== 'bootstrap') return;
  if ((event.sessionKey || '').includes(':subagent:')) return;
  if (Array.isArray(event.context?.bootstrapFiles)) {
    event.context.bootstrapFiles.push({ path: 'NOTES_REMINDER.md', content: REMINDER, virtual: true });
  }
};

export default handler;
"""
JAVASCRIPT = (
    TYPESCRIPT.replace("import type { HookHandler } from 'openclaw/hooks';\n", "")
    .replace("handler: HookHandler", "handler")
    .replace("export default handler;", "module.exports = handler;\nmodule.exports.default = handler;")
)
REMIND = "#!/bin/bash\nset -e\ncat << 'EOF'\n<reminder>\nWas something learned?\n</reminder>\nEOF\n"
DETECT = """#!/bin/bash
set -e
OUTPUT="${CLAUDE_TOOL_OUTPUT:-}"
for pattern in "error:" "Traceback"; do
  if [[ "$OUTPUT" == *"$pattern"* ]]; then echo "<found>$pattern</found>"; fi
done
echo "looked at ${#OUTPUT} characters"
"""
EXTRACT = """#!/bin/bash
set -euo pipefail
usage() { echo "Usage: $(basename "$0") NAME" >&2; exit 1; }
[ $# -eq 1 ] || usage
if ! [[ "$1" =~ ^[a-z0-9]+(-[a-z0-9]+)*$ ]]; then echo "bad name" >&2; exit 2; fi
mkdir -p "$METIER_OUT/$1"
TEMPLATE="$(cat "$(dirname "$0")/../assets/TEMPLATE.md")"
echo "${TEMPLATE/NAME/$1}" | tee "$METIER_OUT/$1/SKILL.md" > "$METIER_OUT/$1/SKETCH.md"
echo "Made $1"
"""
FILES = {
    "SKILL.md": TEXT,
    "hooks/openclaw/HOOK.md": HOOK_TEXT,
    "hooks/openclaw/handler.ts": TYPESCRIPT,
    "hooks/openclaw/handler.js": JAVASCRIPT,
    "scripts/remind.sh": REMIND,
    "scripts/detect.sh": DETECT,
    "scripts/extract.sh": EXTRACT,
    "assets/TEMPLATE.md": "# NAME\n",
    "references/examples.md": "- 2026: the kettle was not plugged in\n",
}
AGENTS_FILE = {"path": "AGENTS.md", "content": "Be kind."}
ADDED = {
    "path": "NOTES_REMINDER.md",
    "content": "## Notes\nAfter the task: was something learned?",
    "virtual": True,
}


def event(kind: str = "agent", action: str = "bootstrap", session: str = "main") -> dict[str, Any]:
    return {
        "type": kind,
        "action": action,
        "sessionKey": session,
        "context": {"bootstrapFiles": [AGENTS_FILE]},
    }


class Study:
    """One machine on which everything is real: sandboxes, record, approvals."""

    def __init__(self, top: Path, patch: pytest.MonkeyPatch) -> None:
        self.machine = Machine(top)
        patch.setenv("HOME", str(self.machine.home))
        patch.setenv("PATH", f"{self.machine.bin}:/usr/bin:/bin")
        patch.delenv("METIER_HOME", raising=False)
        patch.chdir(self.machine.project)

    @property
    def folder(self) -> Path:
        return self.machine.skills / "keep-notes"

    def write(self) -> None:
        for name, text in FILES.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")

    def opened(self, act: Callable[[Runtime], Awaitable[Any]]) -> Any:
        async def main() -> Any:
            async with Runtime.open(project=str(self.machine.project), watch=False) as runtime:
                return await act(runtime)

        return anyio.run(main)

    def fire(self, about: dict[str, Any], file: str = "handler.ts", **more: Any) -> Outcome:
        async def act(runtime: Runtime) -> Outcome:
            house: Any = runtime._engine.house()  # pyright: ignore[reportPrivateUsage]
            given: dict[str, Any] = {"principal": OWNER, **more}
            return await run_hook(
                house, skill="keep-notes", hook=f"hooks/openclaw/{file}", event=about, **given
            )

        return self.opened(act)

    def run(self, name: str = "keep-notes", **arguments: Any) -> Outcome:
        async def act(runtime: Runtime) -> Outcome:
            outcome = await runtime.call("run_in_skill", {"name": name, **arguments})
            if not isinstance(outcome, Pending):
                return outcome
            with Database.open(self.machine.settings().database) as database:
                made = decide(database, outcome.approval_id, by=DECIDER, decision="approve")
                assert isinstance(made, Approval), made
            return await runtime.resume(outcome.approval_id)

        return self.opened(act)

    def call(self, tool: str, **arguments: Any) -> Outcome:
        return self.opened(lambda runtime: runtime.call(tool, arguments))

    def records(self) -> list[tuple[str, str, str]]:
        lines = self.machine.metier("audit", "tail", "--json").stdout.splitlines()
        found = [each for each in map(json.loads, lines) if each.get("call_id")]
        return [(each["event"], each["tool"], each["skill"]) for each in found]


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    made = Study(tmp_path, monkeypatch)
    made.write()
    return made


def value(outcome: Outcome) -> dict[str, Any]:
    assert isinstance(outcome, Completed), outcome
    assert isinstance(outcome.value, dict)
    return outcome.value


def left(outcome: Outcome) -> list[dict[str, Any]]:
    return [
        {key: each[key] for key in each if each[key] is not False}
        for each in value(outcome)["bootstrapFiles"]
    ]


# --- two of OpenClaw's own


@pytest.mark.parametrize("collection", ["npm-openclaw/skills", "agentplexus+omniagent/testdata/skills"])
@pytest.mark.parametrize(("name", "program"), [("sonoscli", "sonos"), ("github", "gh")])
def test_a_skill_of_openclaw_loads_as_it_was_published_and_has_only_its_own_program(
    corpus: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, collection: str, name: str, program: str
) -> None:
    published = Path(corpus.root) / collection / name
    (said,) = [row for row in corpus.oracle if row["path"] == f"{collection}/{name}/SKILL.md"]
    study = Study(tmp_path, monkeypatch)
    shutil.copytree(published, study.machine.skills / name)
    told = study.machine.json("skills", "info", name, "--json")
    assert (told["status"], told["dialect"]) == ("unavailable", "openclaw")
    assert [each["name"] for each in told["missing"]] == [program]
    assert study.machine.metier("skills", "check", name, check=1).stdout.count("install") >= 1
    study.machine.program(program)
    told = study.machine.json("skills", "info", name, "--json")
    assert (told["status"], told["description"]) == ("usable", said["description"])
    assert told["skill"]["emoji"] == said["metadata"]["emoji"]
    assert told["permissions"]["binaries"] == [program]
    body = (published / "SKILL.md").read_text(encoding="utf-8").split("\n---\n", 1)[1].strip()
    read = study.call("read_skill", name=name)
    assert isinstance(read, Completed), read
    assert body.splitlines()[-1] in str(read.value)
    assert isinstance(study.call("run_in_skill", name=name, binary=program), Pending), "somebody is asked"
    for other in ("curl", "sh"):
        refused = study.call("run_in_skill", name=name, binary=other)
        assert isinstance(refused, Refused), refused
        assert refused.code == "forbidden"


# --- the text


def test_the_text_is_read_and_what_lies_beside_it_is_shown(study: Study) -> None:
    told = study.machine.json("skills", "info", "keep-notes", "--json")
    assert (told["status"], told["holds"]) == ("usable", ["hooks", "scripts", "references", "assets"])
    assert not [each for each in told["diagnostics"] if each["severity"] != "info"]
    read = study.call("read_skill", name="keep-notes")
    assert isinstance(read, Completed)
    assert "came up three times" in str(read.value)
    beside = study.call("read_skill", name="keep-notes", path="references/examples.md")
    assert isinstance(beside, Completed), beside
    assert "not plugged in" in str(beside.value)
    assert [
        each["name"] for each in study.machine.json("skills", "list", "--json") if "notes" in each["name"]
    ] == ["keep-notes"], "the hook's own text is no skill"


# --- the hook


@pytest.mark.parametrize("file", ["handler.ts", "handler.js"])
def test_the_hook_adds_its_reminder_when_an_agent_starts(study: Study, file: str) -> None:
    outcome = study.fire(event(), file)
    assert left(outcome) == [AGENTS_FILE, ADDED]
    assert study.records()[-2:] == [
        ("skill_execution_started", "hooks.run", "keep-notes"),
        ("skill_executed", "hooks.run", "keep-notes"),
    ]


@pytest.mark.parametrize(
    "about",
    [
        event(action="end"),
        event("message", "received"),
        event("tool", "after"),
        event(session="main:subagent:1"),
    ],
    ids=["ends", "message", "tool", "subagent"],
)
def test_at_any_other_event_the_hook_leaves_everything_as_it_was(study: Study, about: dict[str, Any]) -> None:
    assert left(study.fire(about)) == [AGENTS_FILE]


def test_a_hook_is_run_by_events_and_by_nobody_else(study: Study) -> None:
    agent = Principal(id="agent:library", kind="agent", on_behalf_of=owner())
    asked = study.fire(event(), principal=agent)
    assert isinstance(asked, Refused), asked
    assert "operator" in "; ".join(asked.reasons), asked
    for script in ("hooks/openclaw/handler.ts", "hooks/openclaw/handler.js"):
        assert isinstance(study.run(script=script), Refused)
    assert isinstance(study.fire(event(), "../../scripts/remind.sh"), Refused)


# --- the scripts


def test_the_scripts_run_as_programs_and_say_what_they_say(study: Study) -> None:
    assert "Was something learned?" in value(study.run(script="scripts/remind.sh"))["stdout"]
    assert value(study.run(script="scripts/detect.sh"))["stdout"] == "looked at 0 characters\n"
    assert study.records()[-1] == ("skill_executed", "run_in_skill", "keep-notes")


def test_a_script_uses_what_lies_beside_it_and_what_it_makes_is_kept(study: Study) -> None:
    outcome = study.run(script="scripts/extract.sh", args=["boil-water"])
    assert value(outcome)["stdout"] == "Made boil-water\n"
    assert isinstance(outcome, Completed)
    (made,) = outcome.artifacts
    assert made.path == f"out/{outcome.call_id}/boil-water/SKETCH.md", (
        "what would pass for a skill is not kept"
    )
    assert (study.machine.state / "workspace" / made.path).read_text() == "# boil-water\n"
    assert not (study.machine.skills / "boil-water").exists(), "nothing becomes a skill by being made"


@pytest.mark.parametrize("args", [[], ["../escape"], ["a", "b"], ["$(id)"]])
def test_a_script_that_refuses_its_arguments_is_a_failure_with_its_words(
    study: Study, args: list[str]
) -> None:
    outcome = study.run(script="scripts/extract.sh", args=args)
    assert not isinstance(outcome, Completed | Refused), outcome
    assert not list((study.machine.state / "workspace").glob("out/*/*"))


# --- both


@pytest.mark.slow
def test_when_one_file_changed_neither_hook_nor_script_runs_until_it_is_trusted_again(study: Study) -> None:
    value(study.fire(event()))
    value(study.run(script="scripts/remind.sh"))
    (study.folder / "scripts" / "remind.sh").write_text("#!/bin/bash\necho other\n")
    assert isinstance(study.fire(event()), Refused)
    assert isinstance(study.run(script="scripts/remind.sh"), Refused)
    study.machine.metier("skills", "trust", "keep-notes", "--yes")
    assert left(study.fire(event())) == [AGENTS_FILE, ADDED]
    assert value(study.run(script="scripts/remind.sh"))["stdout"] == "other\n"
