"""Every example is run as its reader would run it, with the real SDK, against a provider on this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import anyio
import pytest

from metier.testing import ProviderServer, ToolCall, Turn

pytest.importorskip("openai")
pytest.importorskip("anthropic")
pytest.importorskip("mcp")
pytestmark = pytest.mark.slow

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
INSTRUCTIONS = "Pour boiling water over the leaves and wait exactly three minutes."
TEA = f"""---
name: brewing-tea
description: Brew a pot of tea. Use when somebody asks for tea.
---

{INSTRUCTIONS}
"""


class Agent(NamedTuple):
    """An example that drives an agent, and how its provider is asked about what the model was sent."""

    file: str
    provider: str

    def system(self, body: dict) -> str:
        return {
            "openai_chat.py": lambda: body["messages"][0]["content"],
            "openai_responses.py": lambda: body["instructions"],
            "anthropic_messages.py": lambda: body["system"],
        }[self.file]()

    def results(self, body: dict) -> list[str]:
        """What the model was told about its calls, in order."""
        if self.file == "openai_chat.py":
            return [each["content"] for each in body["messages"] if each["role"] == "tool"]
        if self.file == "openai_responses.py":
            return [each["output"] for each in body["input"] if each.get("type") == "function_call_output"]
        blocks = [block for each in body["messages"] for block in each["content"] if isinstance(block, dict)]
        return [block["content"] for block in blocks if block["type"] == "tool_result"]


AGENTS = [
    Agent("openai_chat.py", "openai"),
    Agent("openai_responses.py", "openai"),
    Agent("anthropic_messages.py", "anthropic"),
]
agents = pytest.mark.parametrize("agent", AGENTS, ids=lambda agent: agent.file.removesuffix(".py"))


class Machine(NamedTuple):
    """A user's machine: a home folder, and nothing else in the environment."""

    home: Path

    @property
    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "METIER_HOME": str(self.home / "state"),
            "NO_PROXY": "*",
        }

    def run(self, agent: Agent, script: list[Turn]) -> tuple[subprocess.CompletedProcess[str], list]:
        with ProviderServer(agent.provider, script=script) as server:
            done = self.start(
                [sys.executable, str(EXAMPLES / agent.file), "Tea, please."], server.environment
            )
            assert server.remaining == 0, done.stderr
        assert [request.problem for request in server.requests] == [""] * len(script)
        return done, [request.body for request in server.requests]

    def start(
        self, command: list[str], environment: dict[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self.home,
            env={**self.environment, **(environment or {})},
            capture_output=True,
            text=True,
            timeout=50,
            check=False,
        )

    def audit(self) -> list[tuple[str, str, str]]:
        """Event, tool and skill of every call in the record."""
        program = str(Path(sys.executable).with_name("metier"))
        lines = self.start([program, "audit", "tail", "--json"]).stdout.splitlines()
        records = [json.loads(line) for line in lines]
        return [
            (each["event"], each.get("tool", ""), each.get("skill", ""))
            for each in records
            if each.get("call_id")
        ]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    skill = tmp_path / ".agents" / "skills" / "brewing-tea"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(TEA)
    return Machine(tmp_path)


@agents
@pytest.mark.parametrize(
    ("skill", "instructions"),
    [("brewing-tea", INSTRUCTIONS), ("writing-skills", "# Writing skills")],
    ids=["own", "bundled"],
)
def test_the_agent_reads_a_skill_and_answers(
    agent: Agent, skill: str, instructions: str, machine: Machine
) -> None:
    done, bodies = machine.run(agent, [ToolCall("read_skill", {"name": skill}), "Here is your tea."])
    assert (done.returncode, done.stdout, done.stderr) == (0, "Here is your tea.\n", "")
    assert f"{skill}\n" in agent.system(bodies[0])
    assert instructions not in agent.system(bodies[0])
    [result] = agent.results(bodies[1])
    assert instructions in result
    assert machine.audit() == [
        ("skill_execution_started", "read_skill", skill),
        ("skill_executed", "read_skill", skill),
    ]


@agents
def test_what_the_model_got_wrong_it_is_told_and_the_loop_goes_on(agent: Agent, machine: Machine) -> None:
    # Anthropic parses the arguments itself, so there the worst a model can write is a wrong object.
    bad = {"skill": "brewing-tea"} if agent.provider == "anthropic" else '{"name": "brewing-tea"'
    done, bodies = machine.run(
        agent, [ToolCall("read_skil", {"name": "brewing-tea"}), ToolCall("read_skill", bad), "I gave up."]
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "I gave up.\n", "")
    unknown, malformed = (json.loads(text) for text in agent.results(bodies[2]))
    assert unknown["error"] == "unknown_tool"
    assert "read_skil" in unknown["message"]
    assert "Did you mean 'read_skill'?" in unknown["remedy"]
    assert malformed["error"] == "invalid_arguments"
    assert ("'skill'" if agent.provider == "anthropic" else "not valid JSON") in malformed["message"]
    assert [event for event, _, _ in machine.audit()] == ["skill_execution_blocked"] * 2


@agents
def test_calls_made_at_once_are_all_answered_in_their_order(agent: Agent, machine: Machine) -> None:
    names = ["writing-skills", "no-such-skill", "brewing-tea"]
    _, bodies = machine.run(agent, [[ToolCall("read_skill", {"name": name}) for name in names], "Done."])
    first, second, third = agent.results(bodies[1])
    assert "# Writing skills" in first
    assert json.loads(second)["error"] == "unknown_skill"
    assert INSTRUCTIONS in third


@agents
def test_a_model_that_never_stops_calling_is_stopped(agent: Agent, machine: Machine) -> None:
    done, _ = machine.run(agent, [ToolCall("nothing", {})] * 20)
    assert (done.returncode, done.stdout) == (0, "No answer after twenty turns.\n")


@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_any_mcp_client_can_list_and_call_the_tools_of_the_server(mode: str, machine: Machine) -> None:
    from mcp import Client, StdioServerParameters

    parameters = StdioServerParameters(
        command=sys.executable,
        args=[str(EXAMPLES / "mcp_server.py")],
        env=machine.environment,
        cwd=str(machine.home),
    )

    async def talk() -> list:
        async with Client(parameters, mode=mode, read_timeout_seconds=30) as client:
            listed = await client.list_tools()
            tools = {tool.name: tool for tool in listed.tools}
            assert {"read_skill", "fs_read", "search_index"} <= tools.keys()
            assert tools["read_skill"].input_schema["required"] == ["name"]
            return [
                await client.call_tool("read_skill", {"name": "brewing-tea"}),
                await client.call_tool("read_skill", {"name": "brewing-tea", "force": True}),
                await client.call_tool("read_skil", {"name": "brewing-tea"}),
            ]

    good, bad, unknown = anyio.run(talk)
    assert not good.is_error
    assert INSTRUCTIONS in good.content[0].text
    assert [(each.is_error, json.loads(each.content[0].text)["error"]) for each in (bad, unknown)] == [
        (True, "invalid_arguments"),
        (True, "unknown_tool"),
    ]
    assert [event for event, _, _ in machine.audit()] == [
        "skill_execution_started",
        "skill_executed",
        "skill_execution_blocked",
        "skill_execution_blocked",
    ]


def test_every_example_is_run_here_listed_in_the_readme_and_short() -> None:
    files = sorted(path.name for path in EXAMPLES.glob("*.py"))
    assert files == sorted([*(agent.file for agent in AGENTS), "mcp_server.py"])
    readme = (EXAMPLES / "README.md").read_text()
    assert [name for name in files if readme.count(f"({name})") != 1] == []
    for name in files:
        code = (EXAMPLES / name).read_text().split('"""')[2]
        assert len([line for line in code.splitlines() if line.strip()]) <= 25, name
