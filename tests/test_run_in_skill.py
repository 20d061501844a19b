"""`run_in_skill`: a script or a declared program of a skill that is only a text, as a program, under that skill's permissions."""

import base64
import json
import os
import subprocess
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from in_skill import DECIDER, Shop
from in_skill import shop as shop
from jobs import ending, job
from machine import approve_all, write_skill
from metier.catalog.here import owner
from metier.gate.in_skill import needed_in
from metier.hooks import run_hook
from metier.model.approval import Approval, StandingGrant
from metier.model.call import Principal
from metier.model.entry import Program
from metier.model.ground import Ground
from metier.model.in_skill import arguments_problem
from metier.model.interpreters import hides_interpreter
from metier.model.job import Event, Fault, ProgramGrant, Report
from metier.model.outcome import Attempt, Completed, Failed, Outcome, Pending, Refused, Request
from metier.model.permission import OWN_FOLDER, PermissionSet
from metier.model.skill import Limits, Skill
from metier.record.approvals import find
from metier.record.audit import AuditLog
from metier.record.beside import apart
from metier.record.database import Database
from metier.record.deciding import decide
from metier.record.standing import proposed_grant
from metier.runtime import Runtime
from metier.sandbox.bubblewrap import Bubblewrap
from metier.sandbox.ending import Asked, outcome_of, violated
from metier.sandbox.given_secrets import mask_of, without_secrets
from metier.sandbox.landlock import Landlock
from metier.sandbox.native import NativeSandbox

walls = pytest.mark.parametrize("wall", [Bubblewrap, Landlock])
HANDLER = """import { runHook } from "openclaw/hooks";
runHook(async (event: any) => {
  event.context.bootstrapFiles.push({ path: "REMINDER.md", content: "Write down what you learned." });
});
"""


def value(outcome: Outcome) -> dict[str, Any]:
    assert isinstance(outcome, Completed), outcome
    assert isinstance(outcome.value, dict)
    return outcome.value


def refused(outcome: Outcome) -> tuple[str, str]:
    assert isinstance(outcome, Refused), outcome
    assert outcome.remedy
    return outcome.code, "; ".join(outcome.reasons)


# --- what runs


def test_a_python_script_runs_as_a_program_with_arguments_files_and_its_neighbours(shop: Shop) -> None:
    shop.script("scripts/neighbour.py", "WORD = 'steeped'\n")
    shop.script(
        "scripts/brew.py",
        "import json, sys\nfrom neighbour import WORD\n"
        "said = [sys.argv[1:], __name__, sys.stdin.read(), open('in/leaves.txt').read(), WORD]\n"
        "print(json.dumps(said))\n",
    )
    told = value(
        shop.run(script="scripts/brew.py", args=["green", "$(id) *"], files={"in/leaves.txt": "oolong"})
    )
    assert json.loads(told["stdout"]) == [["green", "$(id) *"], "__main__", "", "oolong", "steeped"]
    assert (told["stderr"], told["exit_code"], told["truncated"]) == ("", 0, False)


def test_a_shell_script_runs_with_the_shell_its_first_line_asks_for(shop: Shop) -> None:
    shop.script("plain.sh", 'echo "${BASH_VERSION:-no bash}: $1"\n')
    shop.script("bash.sh", '#!/usr/bin/env bash\necho "${BASH_VERSION:+bash}: ${1^^}"\n')
    shop.script("zsh.sh", "#!/bin/zsh\necho\n")
    assert value(shop.run(script="plain.sh", args=["a b"]))["stdout"] == "no bash: a b\n"
    assert value(shop.run(script="bash.sh", args=["a b"]))["stdout"] == "bash: A B\n"
    code, why = refused(shop.run(script="zsh.sh"))
    assert code == "not_runnable"
    assert "'zsh'" in why


@pytest.mark.parametrize("ending", ["ts", "js"])
def test_a_script_for_the_engine_runs_as_its_main_program(shop: Shop, ending: str) -> None:
    typed = "const word: string" if ending == "ts" else "const word"
    shop.script(
        f"brew.{ending}",
        f"{typed} = Deno.readTextFileSync('leaves.txt');\n"
        "if (import.meta.main) console.log(JSON.stringify([Deno.args, word]));\n"
        "try { await fetch('http://127.0.0.1:8123/'); } catch (error) { console.log(error.name); }\n"
        "try { new Deno.Command('ls').outputSync(); } catch (error) { console.log(error.name); }\n",
    )
    told = value(shop.run(script=f"brew.{ending}", args=["a", "--b"], files={"leaves.txt": "oolong"}))
    first, *others = told["stdout"].splitlines()
    assert json.loads(first) == [["a", "--b"], "oolong"]
    assert others == ["NotCapable", "NotCapable"]


def test_a_declared_program_runs_with_its_arguments_as_they_are(shop: Shop) -> None:
    shop.declares("printf")
    assert (
        value(shop.run(binary="printf", args=["%s|", "$(id)", "`id`", "a;b"]))["stdout"] == "$(id)|`id`|a;b|"
    )


def test_an_undeclared_curl_is_refused_and_nobody_is_asked(shop: Shop) -> None:
    code, why = refused(shop.run(binary="curl", args=["https://example.com"]))
    assert code == "forbidden"
    assert "curl" in why
    shop.declares("curl")  # the control: declared, the operator is asked about this very program
    asked = shop.with_runtime(lambda runtime: runtime.call("run_in_skill", {"name": "tea", "binary": "curl"}))
    assert isinstance(asked, Pending)


def test_a_skill_with_the_shape_of_self_improving_agent_has_its_hook_and_its_script_run(shop: Shop) -> None:
    shop.script("hooks/openclaw/handler.ts", HANDLER)
    shop.script(
        "scripts/extract.sh",
        '#!/bin/bash\nset -e\nmkdir -p "$METIER_OUT/$1"\ncat > "$METIER_OUT/$1/SKETCH.md" << TEMPLATE\n'
        '# $1\nTEMPLATE\necho "Made $1"\n',
    )
    event = {
        "type": "agent",
        "action": "bootstrap",
        "sessionKey": "s-1",
        "context": {"bootstrapFiles": [{"path": "AGENTS.md", "content": "Be kind."}]},
    }

    async def both(runtime: Runtime) -> tuple[Outcome, Outcome]:
        house: Any = runtime._engine.house()
        human = Principal(id=owner(), kind="human", roles=frozenset({"owner"}))
        hooked = await run_hook(
            house, skill="tea", hook="hooks/openclaw/handler.ts", event=event, principal=human
        )
        return hooked, await shop.approved(runtime, script="scripts/extract.sh", args=["kettle"])

    hooked, ran = shop.with_runtime(both)
    assert [each["path"] for each in value(hooked)["bootstrapFiles"]] == ["AGENTS.md", "REMINDER.md"]
    assert value(ran)["stdout"] == "Made kettle\n"
    assert shop.kept() == [f"{ran.call_id}/kettle/SKETCH.md"]


@pytest.mark.parametrize("source", ["user", "community"])
def test_nothing_of_a_skill_from_the_community_is_run(shop: Shop, source: str) -> None:
    (shop.folder / "SKILL.md").unlink()
    about = {"id": "tea", "description": "Makes tea.", "instructions": "Run go.py.", "source": source}
    (shop.folder / "skill.json").write_text(json.dumps(about))
    shop.script("go.py", "print('ran')\n")
    shop.script("hooks/openclaw/handler.ts", HANDLER)
    event = {"type": "agent", "action": "bootstrap", "sessionKey": "s", "context": {"bootstrapFiles": []}}

    async def each(runtime: Runtime) -> tuple[bool, Outcome, Outcome, Outcome]:
        offered = "run_in_skill" in [tool["name"] for tool in runtime.tools("anthropic")]
        house: Any = runtime._engine.house()
        human = Principal(id=owner(), kind="human", roles=frozenset({"owner"}))
        handler = "hooks/openclaw/handler.ts"
        hooked = await run_hook(house, skill="tea", hook=handler, event=event, principal=human)
        return (
            offered,
            hooked,
            await runtime.call("read_skill", {"name": "tea"}),
            await shop.approved(runtime, script="go.py"),
        )

    offered, hooked, read, ran = shop.with_runtime(each)
    assert isinstance(read, Completed)
    assert f"source: {source}" in " ".join(shop.machine.metier("skills", "info", "tea").stdout.split())
    if source == "user":
        assert offered
        assert value(ran)["stdout"] == "ran\n"
        assert value(hooked)["bootstrapFiles"]
        return
    assert not offered
    for outcome in (hooked, ran):
        code, why = refused(outcome)
        assert code == "not_runnable"
        assert "community" in why


# --- what a script may start


@walls
def test_a_script_starts_declared_and_small_programs_and_no_others(tmp_path: Path, wall: Any) -> None:
    """By name or by path. What the system's loader is told to load does run, behind the same wall."""
    if not os.path.exists("/usr/bin/git"):
        pytest.skip("git is not installed here")
    (tmp_path / "s.sh").write_text(
        "echo small | cat\ntac --version > /dev/null && echo declared\ngit --version\n/usr/bin/git --version\n"
    )
    said = _ran(wall, tmp_path, Program(path="s.sh", language="sh"), binaries={"tac": "/usr/bin/tac"})
    assert said.stdout == "small\ndeclared\n"
    assert "git: not found" in said.stderr
    assert said.exit_code == 126, "found, and not allowed to be started"
    control = subprocess.run(["sh", tmp_path / "s.sh"], capture_output=True, text=True, check=False)
    assert control.stdout.count("git version") == 2, "outside both ways work"


@walls
def test_a_declared_program_that_may_start_others_works_as_it_does_alone(tmp_path: Path, wall: Any) -> None:
    (tmp_path / "s.sh").write_text("find . -maxdepth 0 -exec /usr/bin/env echo fine \\;\n")
    said = _ran(wall, tmp_path, Program(path="s.sh", language="sh"), binaries={"find": "/usr/bin/find"})
    assert said.stdout == "fine\n", ending(said)


def test_an_interpreter_that_a_skill_declares_is_not_given_to_it_unasked() -> None:
    skill = Skill(
        name="tea",
        description="",
        dialect="openclaw",
        permissions=OWN_FOLDER | PermissionSet(binaries=frozenset({"python3", "jq"})),
    )
    script = {"name": "tea", "script": "a.py"}
    needed = needed_in(skill, script, Ground())
    named = needed_in(skill, script, Ground(interpreters=frozenset({"python3"})))
    assert isinstance(needed, PermissionSet)
    assert isinstance(named, PermissionSet)
    assert (needed.binaries, named.binaries) == (frozenset({"jq"}), frozenset({"jq", "python3"}))


def test_a_skill_that_declares_python_has_its_scripts_run_and_python_itself_refused(shop: Shop) -> None:
    shop.declares("python3")
    shop.script("a.py", "print('ran')\n")
    assert value(shop.run(script="a.py"))["stdout"] == "ran\n"
    code, why = refused(shop.run(binary="python3", args=["-c", "print(1)"]))
    assert code == "forbidden"
    assert "interpreters" in why
    (shop.machine.state / "metier.toml").write_text('[binaries]\ninterpreters = ["python3"]\n')
    assert value(shop.run(binary="python3", args=["-c", "print(1)"]))["stdout"] == "1\n"


@pytest.mark.parametrize("named", [False, True])
def test_cmd_31_an_interpreter_under_another_name_is_one_all_the_same(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    """As `slogin` is ssh."""
    shop.machine.bin.mkdir(parents=True, exist_ok=True)
    (shop.machine.bin / "words").symlink_to("/bin/sh")
    monkeypatch.setenv("PATH", f"{shop.machine.bin}:/usr/bin:/bin")
    shop.declares("words")
    shop.machine.state.mkdir(mode=0o700, exist_ok=True)
    shown = '[binaries]\ninterpreters = ["words"]\n' if named else ""
    (shop.machine.state / "metier.toml").write_text(shown)
    outcome = shop.run(binary="words", args=["-c", "echo ran"])
    if named:
        assert value(outcome)["stdout"] == "ran\n"
        return
    code, why = refused(outcome)
    assert code == "forbidden"
    assert "'words' is another name for" in why


@pytest.mark.parametrize(
    ("name", "file", "hides"),
    [
        ("slogin", "/usr/bin/ssh", False),  # known by its own name
        ("js", "/usr/bin/node", True),
        ("python3", "/usr/bin/python3.11", False),
        ("ls", "/bin/busybox", False),
        ("ls", "/usr/bin/ls", False),
    ],
)
def test_a_link_is_what_it_leads_to_but_a_file_of_many_programs_is_what_it_is_called(
    name: str, file: str, hides: bool
) -> None:
    assert hides_interpreter(name, file) == hides


# --- what it says of the secrets it was given


TOKEN = "tok-4711-supersecret-value"
SAYS = """
import base64, os, sys
token = os.environ[NAME]
open(f"{os.environ['METIER_OUT']}/{token}.txt", "w").write("x")
print(token, base64.b64encode(token.encode()).decode())
print(token, file=sys.stderr)
sys.exit(int(sys.argv[1]))
"""


@pytest.mark.parametrize("name", ["TEA_API_TOKEN", "TEA_KEY", "TEA_PAT", "TEA_POT", "TEA_LEAVES"])
@pytest.mark.parametrize("code", [0, 1])
def test_a_token_that_it_was_given_as_a_variable_comes_back_to_nobody(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, name: str, code: int
) -> None:
    monkeypatch.setenv(name, TOKEN)
    primary = ', "primaryEnv": "TEA_POT"' if name == "TEA_POT" else ""
    write_skill(shop.folder, metadata='{"openclaw": {"requires": {"env": ["' + name + '"]}' + primary + "}}")
    shop.script("say.py", SAYS.replace("NAME", repr(name)))
    approve_all(shop.machine.skills)
    outcome = shop.run(script="say.py", args=[str(code)])
    assert isinstance(outcome, Failed if code else Completed), outcome
    record = b"".join(each.read_bytes() for each in shop.machine.state.glob("state.db*"))
    told = repr(outcome).encode() + record
    encoded = base64.b64encode(TOKEN.encode())
    if name == "TEA_LEAVES":  # nothing says that it is a secret
        assert TOKEN.encode() in told
        assert encoded in told
        return
    assert TOKEN.encode() not in told
    assert encoded not in told
    assert "••••••••" in repr(outcome)


def test_what_a_run_returned_is_masked_at_any_depth_and_else_left_as_it_is() -> None:
    made = job(Program(path="a.py", language="python"), environment={"A_TOKEN": TOKEN, "TZ": "Etc/Greenwich"})
    found: dict[str, Any] = {"a": [1, {TOKEN: None, "b": f"x{TOKEN}y"}], "zone": "Etc/Greenwich", "ok": True}
    value = without_secrets(Report(ending="returned", value=found), mask_of(made)).value
    mask = "••••••••"
    assert value == {"a": [1, {mask: None, "b": f"x{mask}y"}], "zone": "Etc/Greenwich", "ok": True}
    plain = Report(ending="returned", value={"a": 1}, stdout="fine")
    assert without_secrets(plain, mask_of(made)) == plain
    program = ProgramGrant(file="/usr/bin/ical", environment={"CALDAV_PASSWORD": TOKEN})
    asks = job(Program(path="a.py", language="python"), programs={"ical": program})
    raised = Report(ending="raised", fault=Fault(name="Error", message=f"no: {TOKEN}"))
    said = without_secrets(raised, mask_of(asks))
    assert said.fault == Fault(name="Error", message=f"no: {mask}")


def test_what_a_run_asked_for_is_told_without_its_secrets() -> None:
    made = job(Program(path="a.py", language="python"), environment={"A_TOKEN": TOKEN})
    asked = Asked(
        requests=(Request(method="exec", detail=f"{TOKEN}, 1 argument", answer="NotFound"),),
        refused=(Attempt(kind="read", detail=f"/nope/{TOKEN}"),),
    )
    for environment in (made.environment, {}):
        each = replace(made, environment=environment)
        told = outcome_of(each, Report(ending="returned"), sandbox="x", asked=asked)
        assert (TOKEN in repr(told)) == (not environment)
        seen = (Event(kind="host_call", detail=f"memory.{TOKEN}"),)
        ended = violated(Failed(call_id="x", code="interrupted", message="it was stopped"), seen, each)
        assert (TOKEN in repr(ended)) == (not environment)
        assert "host_call" in repr(ended)


# --- bad input


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"script": "a.py", "binary": "cat"},
        {"script": "../tea/a.py"},
        {"script": "/etc/a.sh"},
        {"script": "a/../../a.py"},
        {"script": "a.rb"},
        {"script": "SKILL.md"},
        {"script": "hooks/openclaw/handler.ts"},
        {"script": "a.py", "args": "x"},
        {"script": "a.py", "args": [1]},
        {"script": "a.py", "args": ["a\0b"]},
        {"script": "a.py", "files": {"../x": ""}},
        {"script": "a.py", "files": {"/x": ""}},
        {"script": "a.py", "files": {".profile": ""}},
        {"script": "a.py", "files": {"a/.ssh/x": ""}},
        {"script": "a.py", "files": {"out/x": ""}},
        {"script": "a.py", "files": {"a\0": ""}},
        {"script": "a.py", "files": {"a": "", "a/b": ""}},
        {"script": "a.py", "files": {f"f{number}": "" for number in range(33)}},
        {"script": "a.py", "stdin": "x"},
    ],
)
def test_a_call_that_cannot_be_meant_is_refused_before_anybody_is_asked(
    shop: Shop, arguments: dict[str, Any]
) -> None:
    shop.script("a.py", "print('ran')\n")
    assert refused(shop.run(**arguments))[0] == "invalid_arguments"


@pytest.mark.parametrize("args", [["x" * 2_000_000], ["x"] * 100_000, ["y" * 60_000] * 20])
def test_cmd_43_two_megabytes_and_a_hundred_thousand_arguments_are_a_typed_error(
    shop: Shop, args: list[str]
) -> None:
    shop.declares("true")
    assert refused(shop.run(binary="true", args=args))[0] == "invalid_arguments"
    assert value(shop.run(binary="true", args=["x" * 60_000]))["exit_code"] == 0


def test_a_script_that_the_skill_does_not_have_is_refused_with_those_it_has(shop: Shop) -> None:
    shop.script("scripts/a.py", "print('ran')\n")
    shop.script("hooks/openclaw/handler.ts", HANDLER)
    code, why = refused(shop.run(script="scripts/b.py"))
    assert code == "invalid_arguments"
    assert why.endswith("its scripts are: scripts/a.py")
    assert shop.machine.json("approvals", "list", "--json") == [], "nobody was asked about it"


def test_a_link_in_the_skill_is_no_script(shop: Shop, tmp_path: Path) -> None:
    (tmp_path / "outside.sh").write_text("echo outside\n")
    (shop.folder / "link.sh").symlink_to(tmp_path / "outside.sh")
    outcome = shop.run(script="link.sh")
    assert isinstance(outcome, Refused), outcome
    (shop.folder / "link.sh").unlink()
    shop.script("link.sh", "echo inside\n")
    assert value(shop.run(script="link.sh"))["stdout"] == "inside\n"


def test_a_skill_with_tools_of_its_own_is_run_by_those(shop: Shop) -> None:
    code, why = refused(shop.run(name="fs_read", script="fs_read.py"))
    assert code == "invalid_arguments"
    assert "fs_read" in why


def test_spellings_of_one_script_are_one_argument(shop: Shop) -> None:
    shop.script("a.py", "print('ran')\n")
    asked = shop.with_runtime(
        lambda runtime: runtime.call("run_in_skill", {"name": "tea", "script": "skill://tea/./a.py"})
    )
    assert isinstance(asked, Pending)
    [request] = shop.machine.json("approvals", "list", "--json")
    shown = shop.machine.metier("approvals", "show", request["id"]).stdout
    assert '"script": "a.py"' in shown
    assert "its own words" not in shown, "what the tool says of itself is ours"


# --- how it ends


def test_another_exit_code_is_a_failure_that_says_what_it_said_and_not_where_it_lies(shop: Shop) -> None:
    shop.script(
        "a.py", "import os, sys\nopen(os.environ['METIER_OUT'] + '/half.txt', 'w').write('x')\n1 / 0\n"
    )
    outcome = shop.run(script="a.py")
    assert isinstance(outcome, Failed)
    assert outcome.code == "command_failed"
    assert "ZeroDivisionError" in outcome.message
    assert "{baseDir}/a.py" in outcome.message
    assert str(shop.machine.state) not in outcome.message
    assert [each.path for each in outcome.artifacts] == [f"out/{outcome.call_id}/half.txt"]


@walls
def test_a_script_that_never_ends_is_ended(tmp_path: Path, wall: Any) -> None:
    (tmp_path / "s.sh").write_text("echo begun; sleep 60 & sleep 60\n")
    said = _ran(wall, tmp_path, Program(path="s.sh", language="sh"), limits=Limits(timeout=1.0))
    assert (said.ending, said.stdout) == ("timed_out", "begun\n")
    assert said.usage.seconds < 20


def test_more_output_than_is_kept_is_cut_and_said_so(shop: Shop) -> None:
    shop.script("a.py", "print('x' * 5_000_000)\n")
    told = value(shop.run(script="a.py"))
    assert told["truncated"] is True
    assert len(told["stdout"]) == 1_048_576


def test_what_it_left_is_in_the_record_by_name_and_digest(shop: Shop) -> None:
    shop.script("a.py", "import os\nopen(os.environ['METIER_OUT'] + '/tea.csv', 'w').write('a,b')\n")
    outcome = shop.run(script="a.py")
    assert isinstance(outcome, Completed)
    [left] = outcome.artifacts
    with Database.open(shop.machine.settings().database) as database:
        last = AuditLog(database).tail(1)[0]
        with database.reading() as connection:
            (kept,) = connection.execute("SELECT kept FROM audit WHERE seq = ?", (last.seq,)).fetchone()
    assert json.loads((apart(kept) or {})["artifacts"]) == [
        {"path": left.path, "type": "text/csv", "size": 3, "sha256": left.sha256}
    ]


# --- what a lasting yes is for


@pytest.mark.parametrize("program", ["bash", "cat", "runit", "named"])
def test_cmd_30_a_lasting_yes_to_a_shell_is_for_what_it_was_told_then(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, program: str
) -> None:
    monkeypatch.setenv("PATH", f"{shop.machine.bin}:/usr/bin:/bin")
    shop.machine.bin.mkdir(parents=True, exist_ok=True)
    shop.declares(program)
    shop.machine.state.mkdir(mode=0o700, exist_ok=True)
    (shop.machine.bin / "runit").symlink_to("/bin/bash")
    (shop.machine.state / "metier.toml").write_text(
        '[binaries]\ninterpreters = ["bash", "runit"]\n[binaries.programs.named]\nfile = "/bin/bash"\n'
    )
    shop.script("other", "echo anything at all\n")
    shop.script("first", "echo hi\n")

    async def act(runtime: Runtime) -> tuple[str, Outcome, Outcome, Outcome]:
        def arguments(file: str) -> dict[str, Any]:
            return {"name": "tea", "binary": program, "args": [file]}

        asked = await runtime.call("run_in_skill", arguments("first"))
        assert isinstance(asked, Pending), asked
        with Database.open(shop.machine.settings().database) as database:
            found = find(database, asked.approval_id)
            assert found is not None
            assert found.shown is not None
            given = {"approval": asked.approval_id, "by": DECIDER.id}
            any_of_them = proposed_grant(found.shown, "always", **given, any_arguments=True)
            exact = proposed_grant(found.shown, "always", **given)
            grant = exact if isinstance(any_of_them, str) else any_of_them
            assert isinstance(grant, StandingGrant)
            made = decide(
                database, asked.approval_id, by=DECIDER, decision="approve", scope="always", grant=grant
            )
            assert isinstance(made, Approval), made
        first = await runtime.resume(asked.approval_id)
        again = await runtime.call("run_in_skill", arguments("first"))
        other = await runtime.call("run_in_skill", arguments("other"))
        return any_of_them if isinstance(any_of_them, str) else "", first, again, other

    why, first, again, other = shop.with_runtime(act)
    assert not isinstance(first, Pending)
    assert not isinstance(again, Pending), "for the very same it holds"
    assert ("exact arguments only" in why) == (program != "cat")
    assert isinstance(other, Pending) == (program != "cat")


# --- who is told of it


def test_models_are_offered_it_only_where_a_skill_has_something_to_run(shop: Shop) -> None:
    def offered() -> bool:
        async def names(runtime: Runtime) -> bool:
            return "run_in_skill" in [each["name"] for each in runtime.tools("anthropic")]

        return shop.with_runtime(names)

    shop.script("hooks/openclaw/handler.ts", HANDLER)
    assert not offered(), "a hook is run by events"
    shop.script("scripts/a.py", "print('ran')\n")
    assert offered()
    (shop.folder / "scripts" / "a.py").unlink()
    shop.declares("cat")
    assert offered()


def test_what_fits_the_schema_and_can_be_meant_is_taken() -> None:
    assert not arguments_problem(
        {"script": "scripts/a.sh", "args": ["", "-x"], "files": {"a/b/c/d.txt": "x"}}
    )
    assert not arguments_problem({"binary": "cat"})
    for folder in ("hooks", "Hooks", "HOOKS"):  # the same one on some disks
        assert "run by events" in arguments_problem({"script": f"{folder}/openclaw/handler.ts"})


def _ran(wall: Any, bundle: Path, entry: Program, **more: Any) -> Any:
    made_of = job(entry, bundle=os.path.realpath(bundle), **more)

    async def main() -> Any:
        made = wall()
        try:
            return await NativeSandbox(made).run(made_of)
        finally:
            await made.aclose()

    return anyio.run(main)
