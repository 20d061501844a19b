"""Each way to be refused, reached by a real skill and a real setting through a real door, and the way out of it."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from machine import Machine, write_skill
from metier import Completed, Refused, SyncRuntime

NEEDS_KETTLE = '{"openclaw": {"requires": {"bins": ["kettle"]}}}'


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.setenv("PATH", str(made.bin))
    monkeypatch.delenv("METIER_HOME", raising=False)
    return made


def configured(machine: Machine, text: str) -> None:
    machine.state.mkdir(mode=0o700, exist_ok=True)
    (machine.state / "metier.toml").write_text(text, encoding="utf-8")


def disabled(machine: Machine) -> None:
    write_skill(machine.skills / "tea")
    configured(machine, '[skills]\ndisabled = ["tea"]\n')


def switched_off(machine: Machine) -> None:
    write_skill(machine.skills / "tea")
    configured(machine, "[skills.entries.tea]\nenabled = false\n")


def not_named(machine: Machine) -> None:
    write_skill(machine.skills / "tea")
    configured(machine, '[skills]\nallow = ["coffee"]\n')


def free(machine: Machine) -> None:
    configured(machine, "")


def without_its_program(machine: Machine) -> None:
    write_skill(machine.skills / "tea", metadata=NEEDS_KETTLE)


def with_its_program(machine: Machine) -> None:
    machine.program("kettle")


def with_a_link_inside(machine: Machine) -> None:
    folder = write_skill(machine.skills / "tea")
    (folder / "leaves.md").symlink_to("/etc/hostname")


def broken_after_it_was_trusted(machine: Machine) -> None:
    write_skill(machine.skills / "tea")
    machine.metier("skills", "trust", "tea", "--yes")
    with_a_link_inside(machine)


def without_the_link(machine: Machine) -> None:
    (machine.skills / "tea" / "leaves.md").unlink()
    machine.metier("skills", "trust", "tea", "--yes")


def of_the_project(machine: Machine) -> None:
    write_skill(machine.project / "skills" / "tea")


def taken_back(machine: Machine) -> None:
    write_skill(machine.skills / "tea")
    machine.metier("skills", "trust", "tea", "--yes")
    machine.metier("skills", "untrust", "tea")


def changed(machine: Machine) -> None:
    folder = write_skill(machine.skills / "tea")
    machine.metier("skills", "trust", "tea", "--yes")
    (folder / "more.md").write_text("Another file.", encoding="utf-8")


def trusted(machine: Machine) -> None:
    machine.metier("skills", "trust", "tea", "--yes")


def kept_from_models(machine: Machine) -> None:
    write_skill(machine.skills / "tea", disable_model_invocation="true")


def open_to_models(machine: Machine) -> None:
    write_skill(machine.skills / "tea")


def of_another_name(machine: Machine) -> None:
    write_skill(machine.skills / "teas")


def unreadable(machine: Machine) -> None:
    folder = write_skill(machine.skills / "tea")
    (folder / "SKILL.md").write_text("---\nname: tea\n---\n", encoding="utf-8")


Step = Callable[[Machine], None]
# How the machine is, the code, words of the reason, words of the way out, and that way taken.
REFUSED: list[tuple[Step, str, str, str, Step]] = [
    (disabled, "skill_disabled", "named in skills.disabled", "configuration", free),
    (switched_off, "skill_disabled", "skills.entries.tea.enabled", "configuration", free),
    (not_named, "skill_disabled", "not named in skills.allow", "configuration", free),
    (without_its_program, "skill_unavailable", 'requires binary "kettle"', "skills check", with_its_program),
    (with_a_link_inside, "skill_broken", "leaves.md", "skills check", without_the_link),
    (broken_after_it_was_trusted, "skill_broken", "leaves.md", "skills check", without_the_link),
    (of_the_project, "not_trusted", "not trusted yet", "metier skills trust", trusted),
    (taken_back, "not_trusted", "taken back", "metier skills trust", trusted),
    (changed, "not_trusted", "not the bytes that were trusted", "metier skills trust", trusted),
    (kept_from_models, "forbidden", "models may not invoke it", "", open_to_models),
    (of_another_name, "unknown_skill", "no skill 'tea'", "Did you mean 'teas'?", open_to_models),
    (unreadable, "unknown_skill", "no skill 'tea'", "metier skills check", open_to_models),
]


def read(machine: Machine) -> Any:
    with SyncRuntime.open(project=str(machine.project), watch=False) as runtime:
        return runtime.call("read_skill", {"name": "tea"})


@pytest.mark.parametrize(
    ("begin", "code", "reason", "remedy", "put_right"),
    [pytest.param(*case, id=f"{case[1]}: {case[0].__name__.replace('_', ' ')}") for case in REFUSED],
)
def test_a_refusal_says_what_why_and_what_to_do_and_doing_it_helps(
    machine: Machine, begin: Step, code: str, reason: str, remedy: str, put_right: Step
) -> None:
    begin(machine)
    outcome = read(machine)
    assert isinstance(outcome, Refused), outcome
    assert outcome.code == code
    assert reason in "; ".join(outcome.reasons)
    assert outcome.remedy
    assert remedy in outcome.remedy
    put_right(machine)
    assert isinstance(read(machine), Completed)


@pytest.mark.parametrize(
    ("begin", "tool", "arguments", "code", "said"),
    [
        (disabled, "read_skill", {"name": "tea"}, "skill_disabled", "metier skills enable"),
        (without_its_program, "read_skill", {"name": "tea"}, "skill_unavailable", "skills check"),
        (with_a_link_inside, "read_skill", {"name": "tea"}, "skill_broken", "skills check"),
        (of_the_project, "read_skill", {"name": "tea"}, "not_trusted", "skills trust"),
        (kept_from_models, "read_skill", {"name": "tea"}, "forbidden", "models may not invoke it"),
        (free, "read_skill", {"name": "tea"}, "unknown_skill", "skills list"),
        (free, "read_skil", {"name": "tea"}, "unknown_tool", "Did you mean 'read_skill'?"),
        (free, "read_skill", {"nam": "tea"}, "invalid_arguments", "fits the schema"),
    ],
)
def test_at_the_terminal_every_refusal_has_its_code_and_its_way_out(
    machine: Machine, begin: Step, tool: str, arguments: dict[str, str], code: str, said: str
) -> None:
    begin(machine)
    done = machine.metier("call", tool, json.dumps(arguments), check=3)
    assert done.stdout == ""
    assert done.stderr.startswith(f"Refused ({code}); nothing ran.\n")
    assert said in done.stderr


def asked_in_every_shape(name: str) -> dict[str, list[dict[str, Any]]]:
    return {
        "openai": [{"id": "c1", "type": "function", "function": {"name": name, "arguments": "{}"}}],
        "openai_responses": [{"type": "function_call", "call_id": "c1", "name": name, "arguments": "{}"}],
        "anthropic": [{"type": "tool_use", "id": "c1", "name": name, "input": {}}],
        "mcp": [{"method": "tools/call", "id": "c1", "params": {"name": name, "arguments": {}}}],
    }


def text_of(answer: dict[str, Any]) -> tuple[str, bool | None]:
    """What a model reads, and whether the shape itself says that it is an error."""
    if "output" in answer:
        return answer["output"], None
    content = answer["content"]
    if isinstance(content, str):
        return content, None
    [block] = content
    if block["type"] == "text":
        return block["text"], answer["isError"]
    return block["content"], block["is_error"]


@pytest.mark.parametrize("shape", ["openai", "openai_responses", "anthropic", "mcp"])
@pytest.mark.parametrize("name", ["send_money", "read_skil", "skills__trust"])
def test_a_model_that_calls_an_unknown_function_is_answered_with_an_error(
    machine: Machine, shape: str, name: str
) -> None:
    calls: Sequence[dict[str, Any]] = asked_in_every_shape(name)[shape]
    with SyncRuntime.open(project=str(machine.project), watch=False) as runtime:
        [answer] = runtime.handle(calls)
    text, is_error = text_of(answer)
    assert is_error is not False
    said = json.loads(text)
    assert said["error"] == "unknown_tool"
    assert name in said["message"]
    assert "read_skill" in said["remedy"]
