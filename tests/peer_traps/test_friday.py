"""Where actions went wrong elsewhere: kinds that were never built, an empty list that meant everything, a host that was only read.

Requests go through the whole gate and out by the real way, to names and addresses of the test's own.
"""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec import structs

from core_desk import DECIDER, Desk, value
from loopback import PUBLIC, Answering, Listener, World, reply
from machine import approve_all
from metier.model.approval import Approval
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.pipeline import run
from metier.record.approvals import stored_call
from metier.record.deciding import decide
from metier.runtime import Runtime
from metier.sandbox.egress import Egress
from metier.sandbox.http import HttpSandbox

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no wall for code here")

Listen = Callable[[Answering], Listener]
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
URL = "http://api.example/v1"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(tmp_path, monkeypatch)
    yield made
    made.close()


@pytest.fixture
def listen() -> Iterator[Listen]:
    started: list[Listener] = []

    def start(answering: Answering) -> Listener:
        started.append(Listener(answering))
        return started[-1]

    yield start
    for listener in started:
        listener.close()


def install(desk: Desk, *actions: dict[str, Any], **fields: Any) -> None:
    tools = [{"name": each["id"], "description": "Does it.", "parameters": TEXT} for each in actions]
    skill = {
        "id": "desk",
        "name": "Desk",
        "description": "Does things.",
        "instructions": "Do them.",
        "triggerPatterns": [],
        "tools": tools,
        "actions": list(actions),
        "enabled": True,
        "source": "user",
        "status": "active",
        **fields,
    }
    folder = desk.machine.skills / "desk"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "skill.json").write_text(json.dumps(skill))
    approve_all(desk.machine.skills)


def asking(**more: Any) -> dict[str, Any]:
    return {"id": "ask", "type": "http", "method": "GET", "url": URL, **more}


def out(desk: Desk, world: World, tool: str = "desk/ask", text: str = "tea") -> Outcome:
    """The call through every stage, said yes to where somebody is asked; only names and addresses are the test's own."""

    def make(**given: Any) -> Egress:
        given["limits"] = structs.replace(given["limits"], backoff_seconds=0.001)
        return Egress(**given, resolver=world.resolve, connect=world.connect)

    async def main() -> Outcome:
        async with Runtime.open(project=str(desk.machine.project), watch=False) as runtime:
            house: Any = runtime._engine.house()  # pyright: ignore[reportPrivateUsage]
            ways = (HttpSandbox(lambda _name: None, make),)
            house = structs.replace(house, workshop=structs.replace(house.workshop, sandboxes=lambda: ways))
            call = runtime._call(tool, {"text": text})  # pyright: ignore[reportPrivateUsage]
            outcome = await run(call, house)
            if not isinstance(outcome, Pending):
                return outcome
            with desk.database() as database:
                assert isinstance(
                    decide(database, outcome.approval_id, by=DECIDER, decision="approve"), Approval
                )
                stored = stored_call(database, outcome.approval_id)
            assert stored is not None
            return await run(stored, house)

    return anyio.run(main)


def failed(outcome: Outcome) -> Failed:
    assert isinstance(outcome, Failed), outcome
    return outcome


# --- the three kinds


@pytest.mark.slow
def test_all_three_kinds_of_action_really_run(desk: Desk) -> None:
    (desk.workspace / "docs" / "note").write_text("one two three\n")
    install(
        desk,
        {"id": "js", "type": "code", "language": "javascript", "code": "return params.text.length + 38;"},
        {"id": "py", "type": "code", "language": "python", "code": "result = params['text'].upper()"},
        {
            "id": "count",
            "type": "shell",
            "command": "wc -w -- {{text}}",
            "cwd": "docs",
            "allowedPaths": ["docs"],
        },
    )
    made = desk.approved("desk/js", text="four")
    assert isinstance(made, Completed), made
    assert made.value == 42
    upper = desk.approved("desk/py", text="tea")
    assert isinstance(upper, Completed), upper
    assert upper.value == "TEA"
    assert value(desk.approved("desk/count", text="note"))["stdout"] == "3 note\n"
    assert isinstance(desk.call("desk/js", text="four"), Pending), "and none of them unasked"


def test_a_request_really_goes_out_and_its_answer_comes_back(desk: Desk, listen: Listen) -> None:
    world, listener = World(), listen(lambda _asked: reply(body=b'{"a": 1}', Content_Type="application/json"))
    world.put("api.example", listener)
    install(desk, asking(url=f"{URL}/{{{{text}}}}"))
    told = value(out(desk, world, text="a/b"))
    assert (told["status"], told["body"]) == (200, {"a": 1})
    assert listener.asked[0].target == "/v1/a%2Fb"


# --- which hosts


@pytest.mark.parametrize("allowed", [[], ["skills:approve"], ["host:other.example"], ["host:"], ["host:*"]])
def test_a_list_that_does_not_name_the_host_lets_nothing_out(
    desk: Desk, listen: Listen, allowed: list[str]
) -> None:
    world, listener = World(), listen(lambda _asked: reply())
    world.put("api.example", listener)
    install(desk, asking(), allowedPermissions=allowed)
    outcome = out(desk, world)
    assert isinstance(outcome, Refused), outcome
    assert (listener.connections, world.lookups) == (0, [])
    install(desk, asking(), allowedPermissions=["host:http://api.example"])
    assert isinstance(out(desk, world), Completed)


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "192.168.1.1",
        "::1",
        "fd00::1",
        "::ffff:127.0.0.1",
        "100.64.0.1",
    ],
)
def test_a_harmless_name_that_leads_inside_is_not_followed(desk: Desk, listen: Listen, address: str) -> None:
    world, listener = World(), listen(lambda _asked: reply(body=b"inside"))
    world.put("api.example", listener, address)
    install(desk, asking())
    outcome = failed(out(desk, world))
    assert "inside" not in str(outcome.value)
    assert (world.lookups, listener.connections, world.dialled) == (["api.example"], 0, [])
    world.put("api.example", listener)
    assert value(out(desk, world))["body"] == "inside", "the same name with a public address"


def test_a_name_that_changes_after_it_was_looked_at_changes_nothing(desk: Desk, listen: Listen) -> None:
    world, listener = World(), listen(lambda _asked: reply())
    world.put("api.example", listener)
    world.names["api.example"] = [[PUBLIC], ["127.0.0.1"]]
    install(desk, asking())
    assert isinstance(out(desk, world), Completed)
    assert {address for address, _ in world.dialled} == {PUBLIC}


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.1/admin",
        "http://169.254.169.254/latest/meta-data",
        "http://[::1]/",
        "http://other.example/",
        "http://inside.example/",
        "file:///etc/passwd",
        "//other.example/",
        "https://api.example:8443/",
    ],
)
def test_a_redirect_is_judged_like_the_request_itself(desk: Desk, listen: Listen, target: str) -> None:
    other = listen(lambda _asked: reply(body=b"inside"))
    first = listen(lambda _asked: reply("302 Found", b"", Location=target))
    world = World()
    world.put("api.example", first)
    world.put("other.example", other, "93.184.216.35")
    world.put("inside.example", other, "127.0.0.1")
    install(desk, asking())
    outcome = out(desk, world)
    assert isinstance(outcome, Failed), outcome
    assert outcome.value is None
    assert (len(first.asked), other.connections) == (1, 0)


def test_control_a_redirect_within_what_was_granted_is_followed(desk: Desk, listen: Listen) -> None:
    def answering(asked: Any) -> bytes:
        return (
            reply(body=b"there") if asked.target == "/there" else reply("302 Found", b"", Location="/there")
        )

    world, listener = World(), listen(answering)
    world.put("api.example", listener)
    install(desk, asking())
    assert value(out(desk, world))["body"] == "there"


# --- how often


@pytest.mark.parametrize(("count", "sent"), [(None, 1), (0, 1), (1, 2), (3, 4)])
def test_a_request_is_tried_again_as_often_as_its_author_says(
    desk: Desk, listen: Listen, count: int | None, sent: int
) -> None:
    world, listener = World(), listen(lambda _asked: reply("503 Busy", b"later"))
    world.put("api.example", listener)
    install(desk, asking(**({} if count is None else {"retryCount": count})))
    outcome = failed(out(desk, world))
    assert "503" in outcome.message
    assert "later" in outcome.message, "with what the server said"
    assert len(listener.asked) == sent


def test_a_request_that_is_tried_again_can_still_succeed(desk: Desk, listen: Listen) -> None:
    answers = iter([reply("503 Busy", b""), reply("502 Bad", b"")])
    world, listener = World(), listen(lambda _asked: next(answers, reply()))
    world.put("api.example", listener)
    install(desk, asking(retryCount=2))
    assert value(out(desk, world))["status"] == 200
    assert len(listener.asked) == 3


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
def test_what_changes_something_is_not_sent_twice(desk: Desk, listen: Listen, method: str) -> None:
    world, listener = World(), listen(lambda _asked: reply("503 Busy", b""))
    world.put("api.example", listener)
    install(desk, asking(method=method, retryCount=3))
    assert "503" in failed(out(desk, world)).message
    assert len(listener.asked) == 1


@pytest.mark.parametrize("method", ["POST", "DELETE"])
def test_control_where_nobody_was_reached_nothing_was_sent_and_it_is_tried_again(
    desk: Desk, method: str
) -> None:
    world = World()
    world.names["api.example"] = [[PUBLIC]]  # and nobody listens there
    install(desk, asking(method=method, retryCount=2))
    failed(out(desk, world))
    assert len(world.dialled) == 3


# --- where it runs


@pytest.mark.parametrize(
    "action",
    [
        {"id": "ask", "type": "code", "language": "python", "code": "open('/tmp/ran', 'w')"},
        {"id": "ask", "type": "code", "language": "javascript", "code": "return 1"},
        {"id": "ask", "type": "shell", "command": "echo {{text}}"},
    ],
    ids=["python", "javascript", "shell"],
)
def test_where_no_sandbox_can_take_it_it_does_not_run_here_instead(
    desk: Desk, action: dict[str, Any]
) -> None:
    install(desk, action)
    outcome = out(desk, World())  # of all ways to run something, only the one for requests is there
    assert isinstance(outcome, Refused), outcome
    assert outcome.code == "sandbox_unavailable"
    assert outcome.remedy
    ran = desk.approved("desk/ask", text="tea")
    assert isinstance(ran, Completed | Failed), "with the sandboxes of this machine it does"
