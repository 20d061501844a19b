"""Where voice skills went wrong elsewhere: the flag that is left out, the word the model says for the caller, the name of a program.

Each is a skill as an author would write it, called by an agent through the whole gate, with its handler in a real sandbox.
"""

import json
import subprocess
from pathlib import Path
from typing import Any

import anyio
import pytest

from metier.model.outcome import Completed, Failed, Outcome, Refused
from metier.runtime import Runtime
from phone import Phone, amber_skill

pytestmark = pytest.mark.slow

NOTES = """
module.exports = async (params, context) => {
  await context.callLog.write({ type: "ran", given: Object.keys(params).sort() });
  return { success: true, message: "done" };
};
"""
ASKS = """
module.exports = async (params, context) => {
  try {
    return { success: true, message: await context.exec(params.argv) };
  } catch (failure) {
    return { success: false, error: String(failure), message: "no" };
  }
};
"""
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
ARGV = {
    "type": "object",
    "properties": {"argv": {"type": "array", "items": {"type": "string"}}},
    "required": ["argv"],
}
TEA = {"text": "tea?"}


@pytest.fixture
def phone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Phone:
    return Phone(tmp_path, monkeypatch)


def acting(parameters: dict[str, Any] = TEXT, **flags: Any) -> dict[str, str]:
    """A skill that can act, with the flags its author wrote."""
    return amber_skill("tell", NOTES, parameters, capabilities=["act"], **flags)


def asked_first(outcome: Outcome) -> Refused:
    assert isinstance(outcome, Refused), outcome
    assert outcome.code == "confirmation_required"
    return outcome


def shown_to_models(phone: Phone, name: str) -> dict[str, Any]:
    async def work(runtime: Runtime) -> Any:
        return runtime.tools("openai")

    (schema,) = [each for each in phone.open(work) if each["function"]["name"] == name]
    return schema["function"]["parameters"]


# --- the flag


@pytest.mark.parametrize("flags", [{}, {"confirmation_required": None}], ids=["left out", "null"])
def test_an_act_whose_manifest_is_silent_about_confirming_is_held_back(
    phone: Phone, flags: dict[str, Any]
) -> None:
    phone.install("tell", acting(**flags))
    refused = asked_first(phone.call("tell", TEA))
    assert phone.logged(refused) == [], "the handler did not run"
    done = phone.call("tell", {**TEA, "confirmed": True})
    assert isinstance(done, Completed), done
    assert len(phone.logged(done)) == 1


def test_control_only_an_outright_false_lets_an_act_run_unasked(phone: Phone) -> None:
    phone.install("tell", acting(confirmation_required=False))
    assert isinstance(phone.call("tell", TEA), Completed)


@pytest.mark.parametrize("flag", ["false", 0, "", "no", []])
def test_what_only_looks_like_false_opts_out_of_nothing(phone: Phone, flag: Any) -> None:
    phone.install("tell", acting(confirmation_required=flag))
    outcome = phone.call("tell", TEA)
    assert isinstance(outcome, Refused), outcome
    assert phone.logged(outcome) == []


# --- the word


@pytest.mark.parametrize(
    "parameters",
    [
        TEXT,
        {**TEXT, "additionalProperties": False},
        {"type": "object", "properties": {}, "additionalProperties": False},
    ],
    ids=["open", "closed", "empty"],
)
def test_a_schema_that_has_no_room_for_the_word_is_given_it(phone: Phone, parameters: dict[str, Any]) -> None:
    phone.install("tell", acting(parameters, confirmation_required=True))
    given = TEA if parameters["properties"] else {}
    seen = shown_to_models(phone, "tell")
    assert seen["properties"]["confirmed"]["type"] == "boolean"
    asked_first(phone.call("tell", given))
    done = phone.call("tell", {**given, "confirmed": True})
    assert isinstance(done, Completed), done
    (entry,) = phone.logged(done)
    assert entry["given"] == sorted(given), "and the handler is given what its author wrote, no more"


def test_a_word_the_model_made_up_is_none_where_the_caller_had_no_turn(phone: Phone) -> None:
    phone.install("tell", acting(confirmation_required=True))
    line = {"call_id": "line-1", "session": "line-1", "channel": "voice"}
    said = {**TEA, "confirmed": True}
    for _ in range(3):
        refused = asked_first(phone.call("tell", said, turn=1, **line))
        assert phone.logged(refused) == []
    asked_first(phone.call("tell", {"text": "coffee?", "confirmed": True}, turn=2, **line))
    done = phone.call("tell", said, turn=2, **line)
    assert isinstance(done, Completed), "asked in the first turn, and the caller spoke since"
    asked_first(phone.call("tell", said, turn=3, **line))


# --- the program


def test_a_program_is_not_known_by_the_last_part_of_its_path(phone: Phone) -> None:
    planted = {
        "own folder": phone.machine.skills / "asks" / "date",
        "elsewhere": phone.machine.top / "x" / "date",
    }
    phone.install("asks", amber_skill("asks", ASKS, ARGV, permissions={"local_binaries": ["date"]}))
    for path in planted.values():
        path.parent.mkdir(exist_ok=True)
        path.write_text("#!/bin/sh\necho planted\n")
        path.chmod(0o755)
        assert subprocess.run([path], capture_output=True, check=True).stdout == b"planted\n", (
            "outside it runs"
        )
    link = phone.machine.top / "x" / "link" / "date"
    link.parent.mkdir()
    link.symlink_to("/bin/sh")
    for called in (
        *map(str, planted.values()),
        str(link),
        "./date",
        "../date",
        "x/../date",
        "/bin/../bin/date",
    ):
        outcome = phone.call("asks", {"argv": [called, "-c", "echo planted"]})
        assert isinstance(outcome, Failed), (called, outcome)
        assert "is not one of the programs" in outcome.message
    outcome = phone.call("asks", {"argv": ["date", "-u", "-d", "@0", "+%Y"]})
    assert isinstance(outcome, Completed), outcome
    assert "1970" in str(outcome.value), "the declared one runs"


@pytest.mark.parametrize("binaries", [[], None], ids=["an empty list", "no list"])
def test_without_a_list_of_programs_none_runs(phone: Phone, binaries: Any) -> None:
    permissions = {} if binaries is None else {"local_binaries": binaries}
    phone.install("asks", amber_skill("asks", ASKS, ARGV, permissions=permissions))
    outcome = phone.call("asks", {"argv": ["date"]})
    assert isinstance(outcome, Failed), outcome
    assert outcome.code == "violation"


# --- the time


@pytest.mark.parametrize(
    "stays",
    [
        "for (;;) ;",
        "await new Promise(() => setInterval(() => context.callLog.write({ type: 'tick' }), 10));",
        "try { await new Promise((_, no) => setTimeout(no, 60000)); } finally { await context.exec(['date']); }",
    ],
    ids=["busy", "at work", "waiting"],
)
def test_when_the_time_is_over_the_handler_is_over(phone: Phone, stays: str) -> None:
    handler = f"module.exports = async (params, context) => {{ {stays} }};"
    permissions = {"local_binaries": ["date"]}
    phone.install("stay", amber_skill("stay", handler, timeout_ms=700, permissions=permissions))

    async def work(runtime: Runtime) -> Outcome:
        outcome = await runtime.call("stay", {})
        written = len(phone.logged(outcome))
        for _ in range(15):
            assert len(phone.logged(outcome)) == written
            await anyio.sleep(0.02)
        return outcome

    outcome = phone.open(work)
    assert isinstance(outcome, Failed), outcome
    assert outcome.code == "timed_out"
    assert phone.asked("stay", {})["success"] is False, "and the caller hears a sentence"


# --- what is handed over


def test_lists_and_objects_reach_the_handler_as_what_they_are(phone: Phone) -> None:
    handler = """
module.exports = async (params) => ({ success: true, message: JSON.stringify([
  Array.isArray(params.list), Array.isArray(params.list[1]), Array.isArray(params.empty), params.tree,
]) });
"""
    parameters = {
        "type": "object",
        "properties": {
            "list": {"type": "array"},
            "empty": {"type": "array"},
            "tree": {"type": "object", "additionalProperties": True},
        },
    }
    phone.install("look", amber_skill("look", handler, parameters))
    tree: dict[str, Any] = {"a": ["x\u0007y", {"0": "zero"}], "b": {}}
    outcome = phone.call("look", {"list": [1, ["a"]], "empty": [], "tree": tree})
    assert isinstance(outcome, Completed), outcome
    assert isinstance(outcome.value, dict)
    seen = json.loads(str(outcome.value["message"]))
    assert seen == [True, True, True, {"a": ["xy", {"0": "zero"}], "b": {}}], "cleaned, and of the same shape"


# --- the list of approved skills


def test_a_skill_that_the_list_does_not_name_is_neither_shown_nor_called(phone: Phone) -> None:
    phone.install("tell", acting(confirmation_required=False))
    listing = phone.machine.skills / "SKILL_MANIFEST.json"
    for text in ('{"approvedSkills": ["other"]}', '{"approvedSkills": []}', "{}", "not json", ""):
        listing.write_text(text)
        outcome = phone.call("tell", TEA)
        assert isinstance(outcome, Refused), (text, outcome)
        assert outcome.code == "unknown_tool"
    listing.write_text('{"approvedSkills": ["tell"]}')
    assert isinstance(phone.call("tell", TEA), Completed)
