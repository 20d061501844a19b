"""run_agent runs agents that are a text: a model of the operator's, with the instructions and the skills the text names."""

import json
import logging
import socket
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from core_desk import Desk, value, why
from loopback import Listener, reply
from metier.catalog.agent_files import Instructed, read_instructions
from metier.config.load import load
from metier.errors import ConfigError
from metier.host.model_client import MOST_ANSWER
from metier.model.outcome import Outcome
from metier.model.skill import Limits
from metier.record.audit import AuditLog
from metier.record.chain import Record
from metier.runtime import agents
from metier.runtime.agent_talk import MOST_CALLS, MOST_TURNS
from metier.testing import ProviderServer, ToolCall
from metier.testing.script import Turn

RUN = "run_agent/execute"
KEY = "sk-operators-own-key-4711"
TEXT = "---\nmodel: small-1\nskills: [search_index]\n---\nFind out what tea we have.\n"


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(tmp_path, monkeypatch)
    monkeypatch.setenv("MODEL_KEY", KEY)
    (made.workspace / "brain" / "agents").mkdir(mode=0o700)
    (made.workspace / "memory" / "tea.json").write_text(json.dumps({"content": "We have jasmine tea."}))
    yield made
    made.close()


def configure(desk: Desk, url: str, more: str = "") -> None:
    path = desk.machine.state / "metier.toml"
    path.write_text(f'[agents]\nurl = "{url}"\nkey = "env://MODEL_KEY"\n{more}')
    path.chmod(0o600)


def helper(desk: Desk, text: str = TEXT) -> None:
    (desk.workspace / "brain" / "agents" / "helper.md").write_text(text)


def talked(desk: Desk, script: Sequence[Turn], text: str = TEXT) -> tuple[Outcome, list[Any]]:
    """How the agent ended, and the bodies of what the model was sent."""
    helper(desk, text)
    with ProviderServer("openai", script=script) as server:
        configure(desk, server.url)
        outcome = desk.approved(RUN, agentName="helper", wait=True)
    assert [
        each.problem for each in server.requests if each.problem not in ("", "the script has no further turn")
    ] == []
    return outcome, [each.body for each in server.requests]


def answer_in(body: Any) -> Any:
    """What the last tool call was answered with."""
    message = body["messages"][-1]
    assert message["role"] == "tool"
    return json.loads(message["content"])


def records(desk: Desk) -> list[Record]:
    with desk.database() as database:
        return AuditLog(database).tail(1000)


def test_the_model_gets_its_instructions_uses_its_skills_and_says_its_last_word(desk: Desk) -> None:
    outcome, asked = talked(
        desk, [ToolCall("search_index", {"query": "jasmine tea"}), "There is jasmine tea."]
    )
    told = value(outcome)
    assert (told["exitCode"], told["output"]) == (0, "There is jasmine tea.")
    first, second = asked
    assert first["model"] == "small-1"
    assert first["messages"][0] == {"role": "system", "content": "Find out what tea we have."}
    assert [each["function"]["name"] for each in first["tools"]] == ["search_index"]
    assert answer_in(second)["results"][0]["path"] == "memory/tea.json"
    found = [each for each in records(desk) if each.event == "skill_executed"]
    by_tool = {each.tool: each for each in found}
    mine, search = by_tool["agents.run"], by_tool["search_index/execute"]
    assert (search.principal, search.on_behalf_of) == ("agent:brain/helper", "agent:library")
    assert search.parent == mine.call_id
    assert by_tool["memory.search"].parent == search.call_id
    assert by_tool["memory.search"].on_behalf_of == "agent:library"


def test_a_skill_that_the_text_does_not_name_cannot_be_used(desk: Desk) -> None:
    (desk.workspace / "memory" / "note.md").write_text("x")
    outcome, asked = talked(desk, [ToolCall("fs_read", {"path": "memory/note.md"}), "done"])
    assert value(outcome)["exitCode"] == 0
    assert answer_in(asked[1])["error"] == "unknown_tool"
    assert not [each for each in records(desk) if each.tool.startswith("fs_read")]
    named, asked = talked(
        desk,
        [ToolCall("fs_read", {"path": "memory/note.md"}), "done"],
        "---\nmodel: m\nskills: fs_read, search_index\n---\nRead.\n",
    )
    assert answer_in(asked[1])["content"] == "x"
    assert value(named)["output"] == "done"


def test_what_must_be_asked_is_asked_also_of_an_agent(desk: Desk) -> None:
    text = "---\nmodel: m\nskills: [fs_write]\n---\nWrite.\n"
    turns = [ToolCall("fs_write", {"path": "memory/new.md", "content": "x"}), "done"]
    _, asked = talked(desk, turns, text)
    assert answer_in(asked[1])["code"] == "pending_approval"
    assert not (desk.workspace / "memory" / "new.md").exists()


def test_a_text_without_skills_is_given_no_tools(desk: Desk) -> None:
    outcome, asked = talked(desk, ["hello"], "---\nmodel: m\n---\nSay hello.\n")
    assert value(outcome)["output"] == "hello"
    assert "tools" not in asked[0]


def test_bad_arguments_are_told_to_the_model_and_nothing_runs(desk: Desk) -> None:
    outcome, asked = talked(desk, [ToolCall("search_index", '{"query": '), "sorry"])
    assert value(outcome)["output"] == "sorry"
    assert "not valid JSON" in json.dumps(answer_in(asked[1]))


@pytest.mark.slow
def test_a_model_that_never_comes_to_an_end_is_ended(desk: Desk) -> None:
    outcome, asked = talked(desk, [ToolCall("nothing", {})] * (MOST_TURNS + 2))
    assert f"not done after {MOST_TURNS} turns" in why(outcome)
    assert len(asked) == MOST_TURNS
    many, asked = talked(desk, [[ToolCall("nothing", {})] * (MOST_CALLS + 1), "done"])
    assert f"more than {MOST_CALLS} calls" in why(many)
    assert len(asked) == 1


def test_an_endpoint_that_is_down_or_refuses_is_said_without_its_address(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    helper(desk)
    configure(desk, f"http://127.0.0.1:{port}")
    said = why(desk.approved(RUN, agentName="helper", wait=True))
    assert "cannot be reached" in said
    assert str(port) not in said
    with caplog.at_level(logging.WARNING, "metier.agents"):
        outcome, _ = talked(desk, [])
    assert "status 400" in why(outcome)
    assert KEY not in why(outcome) + caplog.text


def test_without_an_endpoint_or_a_model_the_operator_is_told_what_to_write(desk: Desk) -> None:
    helper(desk)
    assert "[agents] url" in why(desk.approved(RUN, agentName="helper", wait=True))
    helper(desk, "---\nname: helper\n---\nSay hello.\n")
    assert "names no model" in why(desk.approved(RUN, agentName="helper", wait=True))


def test_the_operators_model_is_used_where_the_text_names_none(desk: Desk) -> None:
    helper(desk, "---\nname: helper\n---\nSay hello.\n")
    with ProviderServer("openai", script=["hello"]) as server:
        configure(desk, server.url, 'model = "usual-1"\n')
        assert value(desk.approved(RUN, agentName="helper", wait=True))["output"] == "hello"
    assert server.requests[0].body["model"] == "usual-1"


def test_a_skill_that_cannot_be_used_is_said_before_the_model_is_asked(desk: Desk) -> None:
    outcome, asked = talked(desk, ["hello"], "---\nmodel: m\nskills: [nonsense]\n---\nSay hello.\n")
    assert "'nonsense', which cannot be used here" in why(outcome)
    assert asked == []


CUT = '{"choices": [{"finish_reason": "REASON", "message": {"content": "half an ans"}}]}'
DONE = '{"choices": [{"finish_reason": "stop", "message": {"content": "done"}}]}'
"""What an endpoint may answer, and what comes of it."""


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (DONE, ""),
        ('{"choices": [{"message": {"content": [{"type": "text", "text": "do"}, {"text": "ne"}]}}]}', ""),
        ('{"choices": [{"message": {"content": 5}}]}', "no text"),
        ('{"choices": [{"message": {"content": {"text": "done"}}}]}', "no text"),
        ('{"choices": [{"message": {"content": [["done"]]}}]}', "no text"),
        ('{"choices": [{"message": {"content": ["done"]}}]}', "no text"),
        (
            '{"choices": [{"message": {"content": "done", "tool_calls": {"a": 1}}}]}',
            "tool calls that are none",
        ),
        ('{"choices": [{"message": {"content": "done", "tool_calls": "abc"}}]}', "tool calls that are none"),
        ('{"choices": [{"message": {"content": "done", "tool_calls": true}}]}', "tool calls that are none"),
        ('{"choices": [{"message": {"tool_calls": [{"type": "image"}]}}]}', "tool calls that are none"),
        ('{"choices": [{"message": {"function_call": {"name": "x"}}}]}', "tool calls that are none"),
        (CUT.replace("REASON", "length"), "cut off"),
        (CUT.replace("REASON", "content_filter"), "cut off"),
        ('{"choices": ["done"]}', "no chat completion"),
        (DONE + " " * MOST_ANSWER, "too long"),
    ],
)
def test_an_answer_that_is_none_is_never_taken_for_the_last_word(desk: Desk, body: str, said: str) -> None:
    helper(desk)
    server = Listener(lambda _asked: reply(body=body.encode(), Connection="close"))
    try:
        configure(desk, f"http://127.0.0.1:{server.port}")
        outcome = desk.approved(RUN, agentName="helper", wait=True)
    finally:
        server.close()
    if said:
        assert said in why(outcome)
    else:
        assert value(outcome)["output"] == "done"


def test_a_model_that_lets_itself_be_waited_for_is_ended(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agents, "LIMITS", Limits(timeout=0.5))
    helper(desk)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        configure(desk, f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert "took longer than 0.5 s" in why(desk.approved(RUN, agentName="helper", wait=True))


def test_who_does_not_wait_for_a_text_is_answered_at_once(desk: Desk) -> None:
    helper(desk)
    with ProviderServer("openai", script=["hello"]) as server:
        configure(desk, server.url)
        told = value(desk.approved(RUN, agentName="helper"))
        assert told.keys() == {"success", "pid"}
        desk.close()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("---\nmodel: m\n---\n\n", "no instructions"),
        ("---\nmodel: m\nallow: everything\n---\nGo.\n", "'allow'"),
        ("---\nskills: {a: b}\n---\nGo.\n", "`skills`"),
        ("---\nskills: [1]\n---\nGo.\n", "`skills`"),
        ("---\nmodel: [a]\n---\nGo.\n", "`model`"),
        ("---\nmodel: m\nGo.\n", ""),
    ],
)
def test_a_text_that_cannot_be_understood_is_not_run(text: str, said: str) -> None:
    found = read_instructions(text.encode())
    assert isinstance(found, str)
    assert said in found
    assert found


def test_a_text_is_instructions_a_model_and_skills() -> None:
    text = b"---\nname: helper\ndescription: Helps.\nmodel: m\nskills: [a, b, a]\n---\n# Help\n\nHelp.\n"
    assert read_instructions(text) == Instructed(instructions="# Help\n\nHelp.", model="m", skills=("a", "b"))


@pytest.mark.parametrize(
    "text",
    [
        '[agents]\nkey = "env://KEY"\n',
        '[agents]\nurl = "ftp://example.com"\n',
        '[agents]\nurl = "http://user:word@127.0.0.1"\n',
        '[agents]\nurl = "http://127.0.0.1"\nkey = "sk-plain-key"\n',
        '[agents]\nurl = "http://127.0.0.1"\nmodel = "a b"\n',
        '[agents]\nurl = "http://127.0.0.1"\nskills = ["a"]\n',
        "[memory]\nprivate = 1\n",
    ],
)
def test_what_cannot_be_configured_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "metier.toml"
    path.write_text(text)
    path.chmod(0o600)
    with pytest.raises(ConfigError) as error:
        load(home=str(tmp_path), project=str(tmp_path / "project"), environ={"HOME": str(tmp_path)})
    assert "sk-plain-key" not in str(error.value)


def test_a_project_can_name_no_endpoint_and_show_no_private_memory(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    for text in ('[agents]\nurl = "http://127.0.0.1:1"\n', "[memory]\nprivate = true\n"):
        (project / "metier.toml").write_text(text)
        with pytest.raises(ConfigError):
            load(home=str(tmp_path), project=str(project), environ={"HOME": str(tmp_path)})
    (project / "metier.toml").write_text("[budgets.memory]\ncalls = 3\n")
    made = load(home=str(tmp_path), project=str(project), environ={"HOME": str(tmp_path)})
    assert made.budgets.memory.calls == 3
