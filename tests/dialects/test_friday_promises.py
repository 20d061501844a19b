"""What F.R.I.D.A.Y.'s document promises of skills and their actions, each asked of the whole runtime.

Requests go out through the real way out; only the addresses of public servers end at a listener of this machine.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from core_desk import Desk
from loopback import Answering, Asked, Listener, World, reply
from machine import Machine, approve_all
from metier.catalog.bundle import BundleStore
from metier.catalog.hold import hold
from metier.catalog.listed import Listed
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.model.permission import OWN_FOLDER, PermissionSet
from metier.record.trust import TrustStore
from metier.runtime import sandboxes
from metier.sandbox.egress import Egress
from metier.sandbox.http import HttpSandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no wall for code here")

CODE = {"id": "do", "type": "code", "language": "python", "code": "result = params['input']"}
ASK = {"id": "ask", "type": "http", "method": "GET", "url": "http://a.example/v1"}
SECRET = "nobody's business"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(tmp_path, monkeypatch)
    yield made
    made.close()


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answering], Listener]]:
    """A server that answers for a.example."""
    world, started, real = World(), list[Listener](), sandboxes.make_sandboxes

    def way_out(**given: Any) -> Egress:
        return Egress(**given, resolver=world.resolve, connect=world.connect)

    def with_world(*given: Any) -> Any:
        (_, *others), walls = real(*given)
        return (HttpSandbox({}.get, way_out), *others), walls

    def start(answering: Answering) -> Listener:
        started.append(Listener(answering))
        world.put("a.example", started[-1])
        return started[-1]

    monkeypatch.setattr(sandboxes, "make_sandboxes", with_world)
    yield start
    for listener in started:
        listener.close()


def put(machine: Machine, name: str = "desk", **fields: Any) -> Path:
    """A skill of the operator's own."""
    folder = machine.skills / name
    folder.mkdir(parents=True, exist_ok=True)
    about = {"id": name, "description": "Keeps a desk.", "instructions": "Be tidy.", **fields}
    (folder / "skill.json").write_text(json.dumps(about))
    approve_all(machine.skills)
    return folder


def value(outcome: Outcome) -> Any:
    assert isinstance(outcome, Completed), outcome
    return outcome.value


def takes(name: str, /, **properties: Any) -> dict[str, Any]:
    """The tool that describes what an action takes."""
    schema = {"type": "object", "properties": properties, "required": [*properties]}
    return {"name": name, "description": f"Does {name}.", "parameters": schema}


TEXT = {"type": "string"}


# --- actions


@pytest.mark.slow
def test_actions_of_every_kind_stand_side_by_side_and_each_gives_its_result_to_who_asked(
    desk: Desk, serve: Callable[[Answering], Listener]
) -> None:
    serve(lambda _asked: reply(body=b'{"n": 3}', Content_Type="application/json"))
    actions = [
        {**CODE, "id": "py", "code": "result = {'twice': params['input']['n'] * 2}"},
        {**CODE, "id": "js", "language": "javascript", "code": "return { twice: params.input.n * 2 };"},
        ASK,
        {"id": "say", "type": "shell", "command": "echo tea"},
    ]
    put(desk.machine, actions=actions)
    assert value(desk.approved("desk/py", input={"n": 2})) == {"twice": 4}
    assert value(desk.approved("desk/js", input={"n": 2})) == {"twice": 4}
    asked = value(desk.approved("desk/ask"))
    assert (asked["status"], asked["body"]) == (200, {"n": 3})
    said = value(desk.approved("desk/say"))
    assert (said["stdout"], said["exit_code"]) == ("tea\n", 0)


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "DELETE", "PATCH"])
def test_each_method_goes_out_with_its_url_headers_and_body(
    desk: Desk, serve: Callable[[Answering], Listener], method: str
) -> None:
    listener = serve(lambda _asked: reply())
    action = {
        **ASK,
        "method": method,
        "url": "http://a.example/notes/{{name}}?all=1",
        "headers": {"X-Desk": "tidy"},
        "body": '{"note": "{{name}}"}',
    }
    if method == "GET":
        del action["body"]
    put(desk.machine, actions=[action], tools=[takes("ask", name=TEXT)])
    assert value(desk.approved("desk/ask", name="a b"))["body"] == "hello"
    (seen,) = listener.asked
    assert seen.line == f"{method} /notes/a%20b?all=1 HTTP/1.1"
    assert seen.headers["x-desk"] == "tidy"
    assert seen.body == (b"" if method == "GET" else b'{"note":"a b"}')


def test_a_request_ends_with_the_time_its_action_has(
    desk: Desk, serve: Callable[[Answering], Listener]
) -> None:
    def slowly(_asked: Asked) -> Iterator[bytes]:
        time.sleep(1)
        yield reply()

    serve(slowly)
    put(desk.machine, actions=[{**ASK, "timeoutMs": 300}, {**ASK, "id": "wait", "timeoutMs": 20_000}])
    outcome = desk.approved("desk/ask")
    assert isinstance(outcome, Failed)
    assert outcome.code == "timed_out"
    assert value(desk.approved("desk/wait"))["status"] == 200


@pytest.mark.slow
@pytest.mark.parametrize("count", [0, 1, 2])
def test_a_request_is_tried_again_as_often_as_its_action_says(
    desk: Desk, serve: Callable[[Answering], Listener], count: int
) -> None:
    listener = serve(
        lambda _asked: reply() if len(listener.asked) == 3 else reply("503 Busy", Connection="close")
    )
    put(desk.machine, actions=[{**ASK, "retryCount": count}])
    outcome = desk.approved("desk/ask")
    assert len(listener.asked) == count + 1
    assert isinstance(outcome, Completed if count == 2 else Failed)


def test_a_command_ends_with_the_time_its_action_has(desk: Desk) -> None:
    sleep = {"type": "shell", "command": "sleep 4712"}
    short = {"id": "short", "type": "shell", "command": "sleep 0.1", "timeoutMs": 20_000}
    put(desk.machine, actions=[{**sleep, "id": "long", "timeoutMs": 500}, short])
    began = time.monotonic()
    outcome = desk.approved("desk/long")
    assert isinstance(outcome, Failed)
    assert outcome.code == "timed_out"
    assert time.monotonic() - began < 20
    assert value(desk.approved("desk/short"))["exit_code"] == 0


def test_a_command_starts_in_the_folder_its_action_names(desk: Desk) -> None:
    for folder in ("docs/one", "docs/two"):
        (desk.workspace / folder).mkdir()
    pwd = {"type": "shell", "command": "pwd"}
    put(desk.machine, actions=[{**pwd, "id": each, "cwd": f"docs/{each}"} for each in ("one", "two")])
    for each in ("one", "two"):
        assert value(desk.approved(f"desk/{each}"))["stdout"] == f"{desk.workspace}/docs/{each}\n"


def test_a_command_touches_the_paths_its_action_allows_and_no_others(desk: Desk) -> None:
    (desk.workspace / "docs" / "mine").mkdir()
    inside, beside = desk.workspace / "docs" / "mine" / "x", desk.workspace / "docs" / "x"
    outside = desk.machine.top / "x"
    for file in (inside, beside, outside):
        file.write_text(SECRET)
    show, copy = takes("show", path=TEXT), takes("copy", path=TEXT, to=TEXT)
    bounds = {"type": "shell", "allowedPaths": ["docs/mine"]}
    actions = [
        {**bounds, "id": "show", "command": "cat {{path}}"},
        {**bounds, "id": "copy", "command": "cp {{path}} {{to}}"},
    ]
    put(desk.machine, actions=actions, tools=[show, copy])

    def said(action: str, **arguments: str) -> str:
        outcome = desk.approved(f"desk/{action}", **arguments)
        return str(outcome.value) if isinstance(outcome, Completed) else ""

    assert SECRET in said("show", path=str(inside))
    for file in (beside, outside):
        assert SECRET not in said("show", path=str(file))
        assert SECRET in subprocess.run(["cat", file], capture_output=True, text=True).stdout
    said("copy", path=str(inside), to=f"{inside}2")
    assert Path(f"{inside}2").read_text() == SECRET
    for file in (beside, outside):
        said("copy", path=str(inside), to=f"{file}2")
        assert not Path(f"{file}2").exists()


def test_no_shell_reads_what_a_caller_sends(desk: Desk) -> None:
    sent = "$(id) `id` ; id | cat > x && echo $HOME * ~"
    put(
        desk.machine,
        actions=[{"id": "say", "type": "shell", "command": "echo {{text}}"}],
        tools=[takes("say", text=TEXT)],
    )
    assert value(desk.approved("desk/say", text=sent))["stdout"] == f"{sent}\n"
    by_a_shell = subprocess.run(
        ["sh", "-c", f"echo {sent}"], capture_output=True, text=True, cwd=desk.machine.top
    )
    assert by_a_shell.stdout != f"{sent}\n"


# --- the skill as a whole


def test_a_model_is_offered_each_action_as_the_tools_describe_it(desk: Desk) -> None:
    put(desk.machine, actions=[CODE], tools=[takes("do", n={"type": "integer"})])
    (offered,) = [
        each["function"] for each in desk.runtime.tools("openai") if "desk" in each["function"]["name"]
    ]
    assert offered["description"] == "Does do."
    assert offered["parameters"]["properties"] == {"n": {"type": "integer"}}
    assert isinstance(desk.call("desk/do", n="three"), Refused)
    assert isinstance(desk.call("desk/do", n=3), Pending)


def test_what_a_skill_wants_approved_is_asked_whichever_action_is_called(
    desk: Desk, serve: Callable[[Answering], Listener]
) -> None:
    listener = serve(lambda _asked: reply())
    second = {**ASK, "id": "second", "requireApproval": False}
    put(desk.machine, "asks", actions=[ASK, second], requireApproval=True)
    put(desk.machine, "free", actions=[ASK, second])
    desk.level("bounded_auto")
    for action in ("ask", "second"):
        assert isinstance(desk.call(f"asks/{action}"), Pending)
    assert listener.asked == []
    for action in ("ask", "second"):
        assert isinstance(desk.call(f"free/{action}"), Completed)


@pytest.mark.slow
@pytest.mark.parametrize("off", [{"enabled": False}, {"status": "disabled"}])
def test_what_its_file_switches_off_does_not_run_whoever_trusts_it(desk: Desk, off: dict[str, Any]) -> None:
    say = {"id": "say", "type": "shell", "command": "echo tea"}
    put(desk.machine, "on", actions=[say], enabled=True, status="active")
    put(desk.machine, "off", actions=[say], **off)
    assert value(desk.approved("on/say"))["stdout"] == "tea\n"
    for _ in range(2):
        outcome = desk.call("off/say")
        assert isinstance(outcome, Refused)
        assert outcome.code == "skill_disabled"
        desk.machine.metier("skills", "trust", "off", "--yes", check=None)
        desk.runtime.reload()


@pytest.mark.slow
@pytest.mark.parametrize(
    "said", [{"status": "pending_approval"}, {"source": "ai_proposed"}, {"source": "ai_learned"}]
)
def test_what_waits_for_a_person_is_neither_run_nor_read_until_one_trusts_it(
    desk: Desk, serve: Callable[[Answering], Listener], said: dict[str, str]
) -> None:
    listener = serve(lambda _asked: reply())
    put(desk.machine, actions=[ASK], **said)
    put(desk.machine, "other", actions=[ASK])
    for _ in range(2):
        for outcome in (desk.call("desk/ask"), desk.call("read_skill", name="desk")):
            assert isinstance(outcome, Refused)
            assert outcome.code == "not_trusted"
            assert "metier skills trust" in outcome.remedy
        assert listed(desk.machine, "desk").shown == "pending_approval"
        desk.reopen()
    assert listener.asked == []
    assert value(desk.call("other/ask"))["status"] == 200, "which says no such thing"
    desk.machine.metier("skills", "trust", "desk", "--yes")
    desk.runtime.reload()
    assert value(desk.call("desk/ask"))["status"] == 200
    assert listed(desk.machine, "desk").shown == "usable"


def test_a_file_that_has_just_begun_to_wait_for_a_person_is_not_taken_at_its_first_use(desk: Desk) -> None:
    put(desk.machine, actions=[ASK])
    found = desk.runtime.catalog.get("desk")
    assert found is not None
    put(desk.machine, actions=[ASK], status="pending_approval")  # and the runtime has not heard of it yet
    with desk.database() as database:
        bundles = BundleStore(str(desk.machine.state / "bundles"))
        held = hold(found, trust=TrustStore(database), bundles=bundles, now_ns=time.time_ns())
    assert "changed" in held.broken
    assert held.granted == PermissionSet()


# --- dependencies


def listed(machine: Machine, name: str) -> Listed:
    found = machine.catalog().get(name)
    assert found is not None
    return found


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(Path(os.path.realpath(tmp_path)))


def test_a_skill_whose_dependency_is_there_is_usable_and_one_whose_is_not_says_which(
    machine: Machine,
) -> None:
    put(machine, "top", dependencies=["middle"])
    put(machine, "middle", dependencies=["bottom"])
    for name in ("top", "middle"):
        assert listed(machine, name).shown == "unavailable"
    assert "bottom, which is not there" in listed(machine, "middle").why
    assert "middle" in listed(machine, "top").why
    put(machine, "bottom")
    assert {listed(machine, name).shown for name in ("top", "middle", "bottom")} == {"usable"}
    put(machine, "bottom", enabled=False)
    assert listed(machine, "middle").shown == "unavailable"
    assert "bottom, which is disabled" in listed(machine, "middle").why
    assert listed(machine, "top").shown == "unavailable"


@pytest.mark.parametrize("circle", [["one"], ["one", "two"], ["one", "two", "three"]])
def test_skills_that_depend_on_each_other_in_a_circle_are_all_unavailable(
    machine: Machine, circle: list[str]
) -> None:
    for name, wanted in zip(circle, [*circle[1:], circle[0]], strict=True):
        put(machine, name, dependencies=[wanted])
    put(machine, "outside", dependencies=["one"])
    put(machine, "alone")
    for name in circle:
        assert listed(machine, name).shown == "unavailable"
        assert "circle" in listed(machine, name).why
    assert listed(machine, "outside").shown == "unavailable"
    assert listed(machine, "alone").shown == "usable"


def test_a_dependency_can_be_a_capability_that_some_usable_skill_provides(machine: Machine) -> None:
    put(machine, "reader", dependencies=["papers"])
    assert "papers, which is not there" in listed(machine, "reader").why
    put(machine, "shelf", provides=["papers"], enabled=False)
    assert listed(machine, "reader").shown == "unavailable"
    assert "papers, which none that can be used provides" in listed(machine, "reader").why
    put(machine, "drawer", provides=["papers"])
    assert listed(machine, "reader").shown == "usable"
    put(machine, "drawer", provides=["papers"], dependencies=["reader"])
    assert listed(machine, "reader").shown == "unavailable", "a circle by way of a capability"


def test_what_is_unavailable_for_lack_of_another_does_not_run(desk: Desk) -> None:
    say = {"id": "say", "type": "shell", "command": "echo tea"}
    put(desk.machine, actions=[say], dependencies=["lender"])
    assert isinstance(desk.approved("desk/say"), Refused)
    put(desk.machine, "lender")
    desk.runtime.reload()
    assert value(desk.approved("desk/say"))["stdout"] == "tea\n"


# --- rights of another

OPENS = """
result = {}
for name, path in params["input"].items():
    try:
        result[name] = open(path).read()
    except OSError as error:
        result[name] = type(error).__name__
"""


def lender(desk: Desk) -> dict[str, str]:
    """A skill that may read a folder, run a program and reach a host; what it has."""
    (desk.workspace / "docs" / "papers").mkdir()
    paper = desk.workspace / "docs" / "papers" / "x"
    paper.write_text(SECRET)
    read = {"id": "read", "type": "shell", "command": "cat x", "cwd": "docs/papers"}
    folder = put(desk.machine, "lender", actions=[read, ASK], provides=["papers"])
    (folder / "own.txt").write_text(SECRET)
    return {"paper": str(paper), "file": str(folder / "own.txt")}


@pytest.mark.parametrize("wanted", ["lender", "papers"])
def test_cap_07_what_a_skill_depends_on_lends_it_no_file(desk: Desk, wanted: str) -> None:
    has = lender(desk)
    put(desk.machine, actions=[{**CODE, "code": OPENS}], dependencies=[wanted])
    borrower = next(skill for skill in desk.runtime.skills if skill.name == "desk")
    assert borrower.depends_on == (wanted,)
    assert borrower.permissions == OWN_FOLDER
    told = value(desk.approved("desk/do", input=has))
    assert set(told) == {"paper", "file"}
    assert SECRET not in str(told)
    assert value(desk.approved("lender/read"))["stdout"] == SECRET, "the other one may"
    free = subprocess.run(
        [sys.executable, "-c", f"params = {{'input': {has!r}}}\n{OPENS}\nprint(result)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert free.stdout.count(SECRET) == 2, "outside of its sandbox the same code has them"


BORROWED = {
    "a program": "context.exec(['cat', 'x'])",
    "a host": "context.http.get('http://a.example/v1')",
    "a tool": "context.operate('lender/read', {})",
    "its text": "context.operate('read_skill', {'name': 'lender'})",
    "its place": "context.operate('run_in_skill', {'name': 'lender', 'binary': 'cat', 'args': ['own.txt']})",
}


@pytest.mark.slow
@pytest.mark.parametrize("what", BORROWED)
def test_cap_07_what_a_skill_depends_on_does_nothing_for_it(
    desk: Desk, serve: Callable[[Answering], Listener], what: str
) -> None:
    serve(lambda _asked: reply(body=SECRET.encode()))
    lender(desk)
    code = f"result = {BORROWED[what]}.wait()"
    put(desk.machine, actions=[{**CODE, "code": code}], dependencies=["lender", "papers"])
    outcome = desk.approved("desk/do", input={})
    assert isinstance(outcome, Failed)
    if what == "a host":
        assert (outcome.code, "a.example is not granted" in outcome.message) == ("raised", True)
    else:
        assert (outcome.code, "outside what this skill may do" in outcome.message) == ("violation", True)
    assert SECRET not in str(outcome)
    # The other one, which was granted all of it, goes on as before.
    assert value(desk.approved("lender/read"))["stdout"] == SECRET
    assert value(desk.approved("lender/ask"))["body"] == SECRET


def test_cap_07_a_tool_of_another_skill_is_no_operation_that_could_be_declared(desk: Desk) -> None:
    lender(desk)
    (desk.workspace / "memory" / "tea.md").write_text("We have jasmine tea.")
    asked = {"memory.search": {"query": "jasmine tea"}, "lender.read": {}, "lender/read": {}}
    for number, (operation, arguments) in enumerate(asked.items()):
        folder = desk.machine.skills / f"borrower{number}"
        folder.mkdir()
        tool = {
            "name": "do",
            "description": "Does it.",
            "effect": "act",
            "parameters": {"type": "object", "properties": {}},
            "entry": {"kind": "python", "path": "do.py"},
            "permissions": {"operations": [operation]},
        }
        block = json.dumps({"metier": {"tools": [tool]}})
        text = f"---\nname: borrower{number}\ndescription: Does it.\nmetadata: {block}\n---\n\nDo it.\n"
        (folder / "SKILL.md").write_text(text)
        code = (
            f"def main(params, context):\n    return context.operate({operation!r}, {arguments!r}).wait()\n"
        )
        (folder / "do.py").write_text(code)
    approve_all(desk.machine.skills)
    assert value(desk.approved("borrower0/do"))["count"] == 1, "an operation of Metier's own is one"
    outcome = desk.approved("borrower1/do")
    assert isinstance(outcome, Failed)
    assert "there is no tool 'lender.read'" in outcome.message
    broken = desk.runtime.catalog.get("borrower2")
    assert broken is None or broken.shown == "broken"
    assert isinstance(desk.call("borrower2/do"), Refused)
    assert value(desk.approved("lender/read"))["stdout"] == SECRET
