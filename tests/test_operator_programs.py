"""Programs that the operator named, from his metier.toml to the sandbox: what they are, what they get, and who does not."""

import importlib.util
import json
import os
from pathlib import Path
from typing import Any

import anyio
import pytest

from metier.model.outcome import Completed, Failed, Outcome, Refused
from phone import Phone, amber_skill

pytestmark = pytest.mark.slow
GREET = """
[binaries.programs.greet]
file = "/bin/sh"
before = ["-c", 'echo "$GREETING $1 $HIDDEN"; cat "$PLACE/note" 2>&1', "greet"]
spellings = ["/opt/greet/bin/greet"]
writes = ["{workspace}/notes"]
env = ["HIDDEN"]
environment = { GREETING = "hello", PLACE = "{workspace}/notes" }
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
ARGV = {
    "type": "object",
    "properties": {"argv": {"type": "array", "items": {"type": "string"}}},
    "required": ["argv"],
}


def asks(*binaries: str, handler: str = ASKS, **more: Any) -> dict[str, str]:
    # What the program may write makes it an act, so it says so, and that nobody need be asked.
    says = {"capabilities": ["act"], "confirmation_required": False, **more}
    return amber_skill("asks", handler, ARGV, permissions={"local_binaries": list(binaries)}, **says)


@pytest.fixture
def phone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Phone:
    return Phone(tmp_path, monkeypatch)


def said(outcome: Outcome) -> str:
    assert isinstance(outcome, Completed), outcome
    assert isinstance(outcome.value, dict)
    return str(outcome.value["message"])


def note(phone: Phone, text: str) -> Path:
    folder = phone.machine.state / "workspace" / "notes"
    folder.mkdir(mode=0o700, parents=True)
    (folder.parent).chmod(0o700)
    (folder / "note").write_text(text)
    return folder / "note"


@pytest.mark.parametrize("called", ["greet", "/opt/greet/bin/greet"])
def test_a_program_gets_its_arguments_places_and_variables_from_the_operator(
    phone: Phone, called: str
) -> None:
    phone.configure(GREET)
    phone.patch.setenv("HIDDEN", "for the program")
    note(phone, "kept here\n")
    phone.install("asks", asks("greet"))
    assert said(phone.call("asks", {"argv": [called, "$(id)"]})).splitlines() == [
        "hello $(id) for the program",
        "kept here",
    ]


def test_the_skill_itself_holds_nothing_of_what_its_program_is_given(phone: Phone) -> None:
    phone.configure(GREET)
    phone.patch.setenv("HIDDEN", "for the program")
    path = note(phone, "kept here\n")
    handler = """
module.exports = async (params, context) => {
  const tried = {};
  const acts = {
    file: () => Deno.readTextFileSync(params.argv[1]),
    variable: () => Deno.env.get("HIDDEN"),
    node: () => require("node:fs").readFileSync(params.argv[1], "utf8"),
  };
  for (const [name, act] of Object.entries(acts)) {
    try { tried[name] = String(act()); } catch (failure) { tried[name] = "refused"; }
  }
  return { success: true, message: JSON.stringify({ ...tried, program: await context.exec([params.argv[0], "x"]) }) };
};
"""
    phone.install("asks", asks("greet", handler=handler))
    outcome = phone.call("asks", {"argv": ["greet", str(path)]})
    tried = json.loads(said(outcome))
    program = tried.pop("program")
    assert set(tried.values()) <= {"refused", "undefined"}
    assert "kept here" in program, "the program can: only the skill cannot"
    assert "for the program" in program


@pytest.mark.parametrize("called", ["/bin/sh", "/usr/bin/dash", "sh"])
def test_a_shell_that_the_operator_named_is_not_to_be_had_without_his_arguments(
    phone: Phone, called: str
) -> None:
    phone.configure(GREET)
    phone.install("asks", asks("greet"))
    outcome = phone.call("asks", {"argv": [called, "-c", "echo free"]})
    assert isinstance(outcome, Failed), outcome
    assert "free" not in str(outcome.value)
    assert "not one of the programs" in outcome.message


def test_cmd_37_a_file_of_the_same_name_elsewhere_never_runs(phone: Phone) -> None:
    phone.configure(GREET)
    phone.install("asks", asks("greet"))
    note(phone, "kept here\n")
    planted = phone.machine.bin / "greet"
    planted.write_text("#!/bin/sh\necho planted\n")
    planted.chmod(0o755)
    outcome = phone.call("asks", {"argv": [str(planted)]})
    assert isinstance(outcome, Failed), outcome
    assert "not one of the programs" in outcome.message
    phone.patch.setenv("PATH", f"{phone.machine.bin}:/usr/bin:/bin")
    assert said(phone.call("asks", {"argv": ["greet", "x"]})).startswith("hello x"), "nor what the path has"
    phone.configure("")
    assert "planted" in said(phone.call("asks", {"argv": ["greet"]})), "without the operator's word it would"


def test_env_08_a_program_sees_the_variables_it_was_given_and_no_other_of_the_operators(phone: Phone) -> None:
    phone.configure(
        '[binaries.programs.look]\nfile = "/bin/sh"\nbefore = ["-c", "cat /proc/self/environ"]\n'
        'env = ["HIDDEN"]\nenvironment = { MODE = "plain" }\n'
    )
    phone.patch.setenv("HIDDEN", "given-by-name")
    phone.patch.setenv("TELEGRAM_TOKEN", "hunter2222")
    phone.install("asks", asks("look"))
    seen = said(phone.call("asks", {"argv": ["look"]}))
    assert "HIDDEN=given-by-name" in seen
    assert "MODE=plain" in seen
    assert "hunter2222" not in seen
    assert "TELEGRAM_TOKEN" not in seen


def test_a_skill_that_did_not_declare_the_program_is_refused_it(phone: Phone) -> None:
    phone.configure(GREET)
    phone.install("asks", asks())
    outcome = phone.call("asks", {"argv": ["greet", "x"]})
    assert isinstance(outcome, Failed), outcome
    assert "hello" not in str(outcome.value)


def test_arrays_stay_arrays_on_the_way_to_the_handler(phone: Phone) -> None:
    handler = """
module.exports = async (params) =>
  ({ success: true, message: JSON.stringify([Array.isArray(params.argv), params.argv.length, params.argv]) });
"""
    phone.install("asks", asks(handler=handler))
    assert json.loads(said(phone.call("asks", {"argv": ["a", "", "c"]}))) == [True, 3, ["a", "", "c"]]


def test_a_timeout_ends_the_handler_and_the_program_it_waits_for(phone: Phone) -> None:
    handler = """
module.exports = async (params, context) => {
  setInterval(() => context.callLog.write({ type: "still here" }), 20);
  await context.exec(params.argv);
  return { success: true };
};
"""
    phone.install("asks", asks("sleep", handler=handler, timeout_ms=1500))
    seconds = f"3{os.getpid()}.25"

    async def work(runtime: Any) -> tuple[Outcome, bool]:
        seen = False
        outcome: list[Outcome] = []

        async def call() -> None:
            outcome.append(await runtime.call("asks", {"argv": ["sleep", seconds]}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            while not outcome:
                seen = seen or _runs(seconds)
                await anyio.sleep(0.02)
        written = len(phone.logged(outcome[0]))
        assert written > 1, "the handler was at work"
        for _ in range(20):
            assert len(phone.logged(outcome[0])) == written, "and is not any more"
            await anyio.sleep(0.02)
        return outcome[0], seen

    outcome, seen = phone.open(work)
    assert isinstance(outcome, Failed)
    assert outcome.code == "timed_out"
    assert seen, "the program was running"
    assert not _runs(seconds)


def _runs(argument: str) -> bool:
    for number in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{number}/cmdline", "rb") as line:
                if argument.encode() in line.read().split(b"\0"):
                    return True
        except OSError:
            continue
    return False


def test_a_program_that_ends_badly_rejects_with_what_it_wrote_as_errors(phone: Phone) -> None:
    phone.configure(
        '[binaries.programs.sulk]\nfile = "/bin/sh"\nbefore = ["-c", "echo no tea >&2; exit 3"]\n'
    )
    phone.install("asks", asks("sulk"))
    outcome = phone.call("asks", {"argv": ["sulk"]})
    assert isinstance(outcome, Failed), outcome
    assert "no tea" in outcome.message


def test_a_command_of_a_skill_is_given_the_same(phone: Phone) -> None:
    phone.configure(GREET)
    note(phone, "kept here\n")
    tool = {
        "name": "hi",
        "description": "Greets.",
        "effect": "read",
        "risk": "low",
        "minimum_trust": "observe",
        "parameters": {"type": "object", "properties": {}},
        "permissions": {"binaries": ["greet"]},
        "entry": {"kind": "command", "argv": ["greet", "Ada"]},
    }
    metadata = json.dumps({"metier": {"tools": [tool]}})
    text = f"---\nname: greeter\ndescription: Greets.\nmetadata: {metadata}\n---\n"
    phone.install("greeter", {"SKILL.md": text})
    outcome = phone.call("greeter/hi", {})
    assert isinstance(outcome, Completed), outcome
    assert isinstance(outcome.value, dict)
    assert str(outcome.value["stdout"]).splitlines() == ["hello Ada ", "kept here"]


def test_what_a_program_needs_and_cannot_be_given_refuses_the_call_and_says_so(phone: Phone) -> None:
    phone.configure('[binaries.programs.greet]\nfile = "/bin/echo"\nreads = ["/nowhere/at/all"]\n')
    phone.install("asks", asks("greet"))
    outcome = phone.call("asks", {"argv": ["greet"]})
    assert isinstance(outcome, Refused), outcome
    assert outcome.code == "not_runnable"
    assert "'greet'" in outcome.reasons[0]
    assert "/nowhere/at/all" in outcome.reasons[0]
    phone.configure(
        f'[binaries.programs.greet]\nfile = "/bin/echo"\nwrites = ["{phone.machine.state}/keys"]\n'
    )
    (phone.machine.state / "keys").mkdir(exist_ok=True)
    refused = phone.call("asks", {"argv": ["greet"]})
    assert isinstance(refused, Refused), "what no run may write, no program of his may either"
    assert refused.code == "forbidden"


def test_a_program_that_others_could_replace_is_not_run(phone: Phone) -> None:
    mine = phone.machine.top / "tools"
    mine.mkdir()
    file = mine / "greet"
    file.write_text("#!/bin/sh\necho mine\n")
    file.chmod(0o755)
    phone.configure(f'[binaries.programs.greet]\nfile = "{file}"\n')
    phone.install("asks", asks("greet"))
    assert said(phone.call("asks", {"argv": [str(file)]})) == "mine\n"
    file.chmod(0o777)
    outcome = phone.call("asks", {"argv": ["greet"]})
    assert isinstance(outcome, Failed), outcome
    assert "not installed where only root" in outcome.message


@pytest.mark.skipif(importlib.util.find_spec("icalendar") is None, reason="needs the extra `calendar`")
def test_people_are_shown_which_file_it_is_and_what_it_may_touch_besides(phone: Phone) -> None:
    shown = phone.machine.metier("skills", "info", "calendar").stdout
    assert "ical-query is /" in shown
    assert "writes {workspace}/calendar" in shown
    phone.machine.metier("trust", "set", "supervised_auto")
    phone.machine.metier("call", "calendar_query", '{"action": "lookup"}', check=None)
    (waiting,) = phone.machine.json("approvals", "list", "--json")
    told = phone.machine.metier("approvals", "show", waiting["id"]).stdout
    assert "ical-query is /" in told
    assert "writes {workspace}/calendar" in told
