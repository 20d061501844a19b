"""Amber's `context.gateway`, `context.call` and `context.operator`, through the whole pipeline and real sandboxes."""

import json
import os
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from machine import Machine, approve_all
from metier import Runtime
from metier.doors.cli import exits
from metier.host.call_log import read_log
from metier.model.call import Surroundings
from metier.model.outcome import Completed, Failed, Outcome, Refused
from metier.testing import FakeGateway

ROOT = Path(__file__).parents[2]
SEED = next((ROOT.parent / "shared" / "seeds").glob("000_*.txt"), None)
BOTH = pytest.mark.parametrize("language", ["js", "py"])


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(Path(os.path.realpath(tmp_path)))
    for name in ("OPENCLAW_GATEWAY_URL", "OPENCLAW_GATEWAY_TOKEN", "OPERATOR_NAME", "OPERATOR_TELEGRAM_ID"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(made.home))
    monkeypatch.setenv("UNRELATED", "nobody's business")
    made.metier("trust", "set", "bounded_auto")
    return made


@pytest.fixture
def gateway(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeGateway]:
    with FakeGateway() as made:
        for name, value in made.environment.items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("OPERATOR_NAME", "Ada")
        monkeypatch.setenv("OPERATOR_TELEGRAM_ID", "4711")
        yield made


def write(machine: Machine, name: str, language: str, code: str, **permissions: bool) -> None:
    """An Amber skill `name` with a function of the same name."""
    block = {
        "capabilities": ["act"],
        "confirmation_required": False,
        "timeout_ms": 5000,
        "permissions": {"local_binaries": [], **permissions},
        "function_schema": {
            "name": name,
            "description": "For a test.",
            "parameters": {"type": "object", "additionalProperties": True},
        },
    }
    folder = machine.skills / name
    folder.mkdir(parents=True)
    head = f"name: {name}\nversion: 1.0.0\ndescription: For a test.\nmetadata: {json.dumps({'amber': block})}"
    (folder / "SKILL.md").write_text(f"---\n{head}\n---\n\nA test.\n", encoding="utf-8")
    (folder / f"handler.{language}").write_text(code, encoding="utf-8")
    approve_all(machine.skills)


def call(machine: Machine, tool: str, around: Surroundings | None = None, **arguments: Any) -> Outcome:
    async def main() -> Outcome:
        async with Runtime.open(project=str(machine.project), watch=False) as runtime:
            made = runtime._call(runtime._engine.seen.internal(tool), arguments)
            return await runtime._engine.run(replace(made, surroundings=around or Surroundings()))

    return anyio.run(main)


def value(outcome: Outcome) -> Any:
    assert isinstance(outcome, Completed), outcome
    assert isinstance(outcome.value, dict)
    return outcome.value["result"]


def entries(machine: Machine, outcome: Outcome) -> list[Any]:
    log = read_log(str(machine.state), outcome.call_id)
    return [line.entry for line in log.lines] if log is not None else []


SHOW = {
    "js": """
module.exports = async (params, context) => {
  try { context.call.id = "x"; context.operator.name = "x"; } catch {}
  try { context.call = {}; } catch {}
  return { success: true, result: { call: context.call, operator: context.operator } };
};
""",
    "py": """
def main(params, context):
    for thing in (context.call, context.operator):
        try:
            thing["id"] = thing["name"] = "x"
        except TypeError:
            pass
    return {"success": True, "result": {"call": dict(context.call), "operator": dict(context.operator)}}
""",
}


# --- what a handler is told


@BOTH
def test_a_handler_is_told_of_its_call_and_operator_what_the_document_promises_and_no_more(
    machine: Machine, gateway: FakeGateway, language: str
) -> None:
    write(machine, "show", language, SHOW[language])
    around = Surroundings(
        call_id="CA12", caller_id="+4917112", transcript="hello?", turn=3, channel="voice", session="s"
    )
    assert value(call(machine, "show", around)) == {
        "call": {"id": "CA12", "callerId": "+4917112", "transcript": "hello?"},
        "operator": {"name": "Ada", "telegramId": "4711"},
    }


def test_what_nobody_knows_is_empty_and_the_call_has_its_own_id(machine: Machine) -> None:
    write(machine, "show", "js", SHOW["js"])
    outcome = call(machine, "show")
    assert value(outcome) == {
        "call": {"id": outcome.call_id, "callerId": "", "transcript": ""},
        "operator": {"name": ""},
    }


def test_the_operator_is_whom_his_own_file_names(machine: Machine, gateway: FakeGateway) -> None:
    text = '[operator]\nname = "Grace"\ntelegram_id = 815\n'
    (machine.state / "metier.toml").write_text(text, encoding="utf-8")
    write(machine, "show", "js", SHOW["js"])
    assert value(call(machine, "show"))["operator"] == {"name": "Grace", "telegramId": "815"}


# --- messages and actions

SAY = {
    "js": """
module.exports = async (params, context) => {
  const sent = await context.gateway.sendMessage("hello");
  return { success: true, result: sent };
};
""",
    "py": """
async def main(params, context):
    context.callLog.write({"type": "first"})
    first = await context.gateway.send_message("hello")
    second = context.gateway.sendMessage("again").wait()
    return {"success": True, "result": first if first == second else None}
""",
}
DO = {
    "js": """
module.exports = async (params, context) => {
  return { success: true, result: await context.gateway.post({ action: "count" }) };
};
""",
    "py": """
async def main(params, context):
    return {"success": True, "result": await context.gateway.post({"action": "count"})}
""",
}


@BOTH
def test_a_message_goes_to_the_operator_through_the_gateway(
    machine: Machine, gateway: FakeGateway, language: str
) -> None:
    write(machine, "say", language, SAY[language], telegram=True)
    assert value(call(machine, "say")) == {"delivered": True}
    assert gateway.messages == ["hello", "again"][: len(gateway.messages)]
    assert gateway.messages[0] == "hello"
    assert {posted.content["telegram_id"] for posted in gateway.requests} == {"4711"}
    assert {posted.headers["authorization"] for posted in gateway.requests} == {f"Bearer {gateway.token}"}


@BOTH
def test_an_action_goes_to_the_gateway_and_its_answer_comes_back(
    machine: Machine, gateway: FakeGateway, language: str
) -> None:
    gateway.says = "seven"
    write(machine, "do", language, DO[language], openclaw_action=True)
    assert value(call(machine, "do")) == "seven"
    assert gateway.requests[0].content == {"action": "count"}


@BOTH
@pytest.mark.parametrize(("code", "wrong"), [(SAY, "openclaw_action"), (DO, "telegram")])
def test_cap_10_a_handler_that_asks_for_what_it_did_not_declare_is_ended_and_its_skill_disabled(
    machine: Machine, gateway: FakeGateway, code: dict[str, str], wrong: str, language: str
) -> None:
    write(machine, "sly", language, code[language], **{wrong: True})
    outcome = call(machine, "sly")
    assert isinstance(outcome, Failed), outcome
    assert outcome.code == "violation"
    assert gateway.requests == []
    again = call(machine, "sly")
    assert isinstance(again, Refused)
    assert again.code == "skill_disabled"


def test_cap_10_no_argument_of_a_caller_names_a_recipient(machine: Machine, gateway: FakeGateway) -> None:
    code = """
module.exports = async (params, context) => {
  const said = [];
  for (const given of [params.message, params]) {
    try { said.push(await context.gateway.sendMessage(given, { to: params.to })); } catch (e) { said.push(e.name); }
  }
  return { success: true, result: said };
};
"""
    write(machine, "say", "js", code, telegram=True)
    said = value(call(machine, "say", message="tea", to="666", telegram_id="666"))
    assert said == [{"delivered": True}, "InvalidRequest"]
    assert [posted.content for posted in gateway.requests] == [{"telegram_id": "4711", "text": "tea"}]


def test_net_30_a_skill_never_reaches_the_gateway_by_itself(machine: Machine, gateway: FakeGateway) -> None:
    """What Metier may ask for the operator is no grant, also not for a skill that may send messages."""
    code = """
module.exports = async (params, context) => {
  const url = %s;
  await context.http.request({ method: "POST", url, body: "{}" });
  return { success: true };
};
"""
    url = json.dumps(f"{gateway.url}/v1/chat/completions")
    write(machine, "sly", "js", code % url, telegram=True, openclaw_action=True)
    outcome = call(machine, "sly")
    assert isinstance(outcome, Failed), outcome
    assert outcome.code == "violation"
    assert gateway.requests == []


def test_sec_09_a_handler_holds_neither_token_nor_environment(machine: Machine, gateway: FakeGateway) -> None:
    code = """
module.exports = async (params, context) => {
  let env = null;
  try { env = Deno.env.toObject(); } catch {}
  return { success: true, result: JSON.stringify([env, Object.keys(context), context]) };
};
"""
    write(machine, "look", "js", code, telegram=True, openclaw_action=True)
    seen = value(call(machine, "look"))
    assert "4711" in seen, "control: what it is told is there"
    for secret in (gateway.token, gateway.url, "nobody's business"):
        assert secret not in seen


def test_cap_12_a_change_of_the_configuration_counts_from_the_next_call_on(
    machine: Machine, gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(machine, "say", "js", SAY["js"], telegram=True)

    async def main() -> None:
        async with Runtime.open(project=str(machine.project), watch=False) as runtime:
            assert isinstance(await runtime.call("say", {}), Completed)
            (machine.state / "metier.toml").write_text("[operator]\ntelegram_id = 815\n", encoding="utf-8")
            assert isinstance(await runtime.call("say", {}), Completed)

    anyio.run(main)
    assert [posted.content["telegram_id"] for posted in gateway.requests] == ["4711", "815"]


# --- taking messages

NOTE = {"message": "Call me back", "caller_name": "Bob", "callback_number": "0171 12", "confirmed": True}


def test_a_message_is_noted_first_and_then_delivered(machine: Machine, gateway: FakeGateway) -> None:
    outcome = call(machine, "send_message", **NOTE)
    assert value(outcome) == {"logged": True, "delivered": True}
    assert isinstance(outcome, Completed)
    assert isinstance(outcome.value, dict)
    spoken = outcome.value["message"]
    assert isinstance(spoken, str)
    assert "noted" in spoken
    assert not re.search("telegram|gateway|openclaw", spoken, re.IGNORECASE)
    assert [each["type"] for each in entries(machine, outcome)] == [
        "skill.send_message",
        "skill.send_message.delivered",
    ]
    (text,) = gateway.messages
    assert all(part in text for part in ("Bob", "0171 12", "Call me back"))
    machine.metier("messages", "undelivered", check=exits.OK)


@pytest.mark.parametrize("status", [401, 500])
def test_a_message_that_could_not_be_delivered_is_noted_and_listed(
    machine: Machine, gateway: FakeGateway, status: int
) -> None:
    gateway.status = status
    outcome = call(machine, "send_message", **NOTE)
    assert value(outcome) == {"logged": True, "delivered": False}
    assert entries(machine, outcome)[-1]["type"] == "skill.send_message.delivery_failed"
    listed = machine.metier("messages", "undelivered", "--json", check=exits.PROBLEM).stdout
    found = json.loads(listed)
    assert (found["call_id"], found["message"], found["state"]) == (outcome.call_id, "Call me back", "failed")


def test_a_message_of_which_nobody_knows_whether_it_arrived_is_listed_as_that(
    machine: Machine, gateway: FakeGateway
) -> None:
    gateway.raw = b"<html>a proxy of somebody's</html>"
    outcome = call(machine, "send_message", **NOTE)
    assert value(outcome) == {"logged": True, "delivered": False}
    last = entries(machine, outcome)[-1]
    assert (last["type"], last["delivery_unknown"]) == ("skill.send_message.delivery_unknown", True)
    assert (
        "not known to be delivered: " in machine.metier("messages", "undelivered", check=exits.PROBLEM).stdout
    )
    machine.metier("messages", "done", outcome.call_id)
    machine.metier("messages", "undelivered", check=exits.OK)


@pytest.mark.slow
def test_a_gateway_that_thinks_too_long_leaves_it_unknown_whether_a_message_arrived(
    machine: Machine, gateway: FakeGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()
    answer = gateway.answer

    def late(*given: Any) -> tuple[int, bytes]:
        over.wait(20)
        return answer(*given)

    monkeypatch.setattr(gateway, "answer", late)
    try:
        outcome = call(machine, "send_message", **NOTE)
    finally:
        over.set()
    assert value(outcome) == {"logged": True, "delivered": False}
    found = json.loads(machine.metier("messages", "undelivered", "--json", check=exits.PROBLEM).stdout)
    assert (found["state"], "in time" in found["error"]) == ("unknown", True)


def test_where_nothing_is_kept_the_caller_is_told_that_no_message_can_be_taken(
    machine: Machine, gateway: FakeGateway
) -> None:
    config = machine.state / "metier.toml"
    config.write_text('[audit]\npayloads = "hashes"\n', encoding="utf-8")
    config.chmod(0o600)
    outcome = call(machine, "send_message", **NOTE)
    assert isinstance(outcome, Failed), outcome
    assert outcome.code == "reported"
    assert "hashes" in outcome.message
    assert isinstance(outcome.value, dict)
    assert "cannot take messages" in str(outcome.value["message"])
    assert "noted" not in str(outcome.value["message"])
    assert gateway.requests == []
    assert entries(machine, outcome) == []
    config.unlink()
    assert value(call(machine, "send_message", **NOTE)) == {"logged": True, "delivered": True}, "control"


def test_a_run_that_is_ended_between_noting_and_sending_leaves_an_undelivered_message(
    machine: Machine, gateway: FakeGateway
) -> None:
    code = """
module.exports = async (params, context) => {
  await context.callLog.write({ type: "skill.send_message", message: "half way", delivery_status: "pending" });
  while (true) {}
};
"""
    write(machine, "stuck", "js", code, telegram=True)
    skill = machine.skills / "stuck" / "SKILL.md"
    text = skill.read_text(encoding="utf-8")
    skill.write_text(text.replace('"timeout_ms": 5000', '"timeout_ms": 900'), encoding="utf-8")
    outcome = call(machine, "stuck")
    assert isinstance(outcome, Failed), outcome
    assert outcome.code == "timed_out"
    found = json.loads(machine.metier("messages", "undelivered", "--json", check=exits.PROBLEM).stdout)
    assert (found["message"], found["state"], found["skill"]) == ("half way", "unknown", "stuck")


@pytest.mark.skipif(SEED is None, reason="the source document is not beside the project")
@pytest.mark.parametrize("says", ["DELIVERED", "no"])
def test_the_documents_own_handler_takes_messages_unchanged(
    machine: Machine, gateway: FakeGateway, says: str
) -> None:
    assert SEED is not None
    section = SEED.read_text(encoding="utf-8").partition("## Send Message Skill")[2]
    manifest, handler = (
        re.search(rf"```{kind}\n(.*?)```", section, re.DOTALL)[1]  # type: ignore[index]
        for kind in ("yaml", "js")
    )
    folder = machine.skills / "send-message"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(manifest, encoding="utf-8")
    (folder / "handler.js").write_text(handler, encoding="utf-8")
    approve_all(machine.skills)
    gateway.says = says
    outcome = call(machine, "send_message", **NOTE)
    assert value(outcome) == {"logged": True, "delivered": says == "DELIVERED"}
    end = "delivered" if says == "DELIVERED" else "delivery_failed"
    assert [each["type"] for each in entries(machine, outcome)] == [
        "skill.send_message",
        f"skill.send_message.{end}",
    ]
    status = exits.OK if says == "DELIVERED" else exits.PROBLEM
    machine.metier("messages", "undelivered", check=status)
