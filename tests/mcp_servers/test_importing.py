"""`metier mcp import`: servers of other clients as skills that nobody trusts, with as little as can be told, and no secret in sight."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from machine import Machine
from metier.doors.cli.mcp_found import Found, Unread, files_of, servers_in
from metier.doors.cli.mcp_proposal import Proposal, propose

TOKEN = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
PASSWORD = "hunter2-hunter2"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setenv("HOME", str(made.home))
    return made


def proposed(path: str = "/usr/bin:/bin", **fields: Any) -> Proposal:
    return propose(Found(name="Some Server", file="/x.json", fields=fields), path=path)


def configure(machine: Machine, **servers: Any) -> Path:
    path = machine.project / ".mcp.json"
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("line", "command", "args", "fetched"),
    [
        (["uvx", "mcp-server-git"], "mcp-server-git", [], "uv tool install mcp-server-git"),
        (
            ["uvx", "mcp-server-git@1.2", "-r", "."],
            "mcp-server-git",
            ["-r", "."],
            "uv tool install mcp-server-git@1.2",
        ),
        (["uvx", "--from", "pkg==2", "serve", "x"], "serve", ["x"], "uv tool install pkg==2"),
        (["npx", "-y", "@scope/tool@3", "a"], "tool", ["a"], "npm install -g @scope/tool@3"),
        (["pipx", "run", "thing"], "thing", [], "pipx install thing"),
        (
            ["npx", "@modelcontextprotocol/server-memory"],
            "mcp-server-memory",
            [],
            "npm install -g @modelcontextprotocol/server-memory",
        ),
    ],
)
def test_what_a_runner_would_fetch_is_said_as_a_command_and_not_run(
    line: list[str], command: str, args: list[str], fetched: str
) -> None:
    found = proposed(command=line[0], args=line[1:])
    assert found.problem == ""
    assert (found.manifest["command"], found.manifest.get("args", [])) == (command, args)
    assert found.commands == (fetched,)


def test_an_interpreter_is_named_for_this_one_use_in_the_operators_own_file(tmp_path: Path) -> None:
    script = tmp_path / "server.py"
    script.write_text("", encoding="utf-8")
    found = proposed(command="/usr/bin/python3", args=[str(script), "--fast"])
    assert found.manifest["command"] == "some-server-server"
    assert "args" not in found.manifest
    assert found.configuration.splitlines()[:3] == [
        "[binaries.programs.some-server-server]",
        'file = "/usr/bin/python3"',
        f'before = ["{script}", "--fast"]',
    ]
    assert str(tmp_path) in found.configuration


def test_secrets_become_names_and_everything_that_may_be_one_counts() -> None:
    written = {
        "GITHUB_TOKEN": TOKEN,
        "OPENAI_KEY": "abcdefgh",
        "DATABASE": f"postgres://me:{PASSWORD}@db/x",
        "MODE": "fast",
        "SAME": "${SAME}",
        "OTHER": "${env:NOT_ITS_NAME}",
        "NODE_OPTIONS": "--require /x.js",
    }
    found = proposed(command="serve", args=[], env=written)
    assert found.manifest["env"] == {
        "GITHUB_TOKEN": "{{secret:some-server.GITHUB_TOKEN}}",
        "OPENAI_KEY": "{{secret:some-server.OPENAI_KEY}}",
        "DATABASE": "{{secret:some-server.DATABASE}}",
        "MODE": "fast",
        "OTHER": "{{secret:some-server.OTHER}}",
    }
    assert found.manifest["permissions"] == {"env": ["SAME"]}
    assert found.secrets.keys() == {
        "some-server.GITHUB_TOKEN",
        "some-server.OPENAI_KEY",
        "some-server.DATABASE",
    }
    assert any("NODE_OPTIONS" in note for note in found.notes)
    far = proposed(
        url="https://mcp.example.com/x", headers={"Authorization": f"Bearer {TOKEN}", "X-Team": "a"}
    )
    assert far.manifest["headers"] == {
        "Authorization": "Bearer {{secret:some-server.Authorization}}",
        "X-Team": "a",
    }
    assert far.secrets == {"some-server.Authorization": TOKEN}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({}, "neither a command nor a url"),
        ({"command": "docker", "args": ["run", "x"]}, "container"),
        ({"command": "x", "args": "y"}, "no list of texts"),
        ({"command": "x", "args": ["${workspaceFolder}"]}, "only that client fills in"),
        ({"command": "x", "args": [f"--token={TOKEN}"]}, "a secret may stand among its arguments"),
        ({"url": "https://a.example/sse", "type": "sse"}, "old transport"),
        ({"command": "npx", "args": ["-y"]}, "cannot be told"),
    ],
)
def test_what_cannot_be_taken_over_is_said_and_why(fields: dict[str, Any], why: str) -> None:
    assert why in proposed(**fields).problem


def test_nothing_is_printed_or_written_of_a_secret_and_it_is_moved_only_after_a_yes_of_its_own(
    machine: Machine,
) -> None:
    file = configure(machine, tools={"command": "serve", "env": {"API_TOKEN": TOKEN}})
    before = file.read_bytes()
    done = machine.metier("mcp", "import", "claude-code", stdin="y\nn\n")
    assert TOKEN not in done.stdout + done.stderr
    assert "metier secrets set tools.API_TOKEN" in done.stdout
    assert TOKEN not in (machine.skills / "tools" / "mcp_server.json").read_text(encoding="utf-8")
    assert machine.metier("secrets", "list").stdout == ""
    # The control: after a yes it is kept, sealed.
    os.remove(machine.skills / "tools" / "mcp_server.json")
    os.rmdir(machine.skills / "tools")
    done = machine.metier("mcp", "import", "claude-code", stdin="y\ny\n")
    assert TOKEN not in done.stdout + done.stderr
    assert "tools.API_TOKEN" in machine.metier("secrets", "list").stdout
    for path in machine.state.rglob("*"):
        if path.is_file():
            assert TOKEN.encode() not in path.read_bytes(), path
    assert file.read_bytes() == before


def test_without_a_yes_nothing_is_written_and_what_is_there_is_not_replaced(machine: Machine) -> None:
    configure(machine, tools={"command": "serve"})
    machine.metier("mcp", "import", "claude-code", stdin="n\n", check=1)
    assert not (machine.skills / "tools").exists()
    machine.metier("mcp", "import", "claude-code", "--yes")
    mine = machine.skills / "tools" / "mcp_server.json"
    mine.write_text('{"command": "mine"}', encoding="utf-8")
    done = machine.metier("mcp", "import", "claude-code", "--yes", check=1)
    assert "is there already" in done.stderr
    assert "mine" in mine.read_text(encoding="utf-8")


def test_each_client_is_found_where_it_keeps_its_servers(machine: Machine) -> None:
    def put(place: str, text: str) -> None:
        path = machine.home / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")

    server = {"command": "serve"}
    put(".claude.json", json.dumps({"mcpServers": {"one": server}, "projects": {str(machine.project): {"mcpServers": {"two": server}}, "/other": {"mcpServers": {"not": server}}}}))  # fmt: skip
    put(".cursor/mcp.json", json.dumps({"mcpServers": {"three": server}}))
    put(".codex/config.toml", '[mcp_servers.four]\ncommand = "serve"\nargs = ["x"]\n')
    put(".config/Code/User/mcp.json", json.dumps({"servers": {"five": server}}))
    put(".config/Claude/claude_desktop_config.json", json.dumps({"mcpServers": {"six": server}}))
    found = {
        client: [each["name"] for each in machine.json("mcp", "import", client, "--yes", "--json")]
        for client in ("claude-code", "cursor", "codex", "vscode", "claude-desktop")
    }
    assert found == {
        "claude-code": ["two", "one"],
        "cursor": ["three"],
        "codex": ["four"],
        "vscode": ["five"],
        "claude-desktop": ["six"],
    }
    assert {each.name: each.shown for each in machine.catalog().listed if each.name in ("one", "six")} == {
        "one": "pending_approval",
        "six": "pending_approval",
    }


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", "no object"),
        ('{"mcpServers": {}, "mcpServers": {}}', "strict JSON"),
        ("\x00", "strict JSON"),
    ],
)
def test_a_file_that_cannot_be_read_is_said_to_be(text: str, says: str, machine: Machine) -> None:
    file = machine.project / "servers.json"
    file.write_text(text, encoding="utf-8")
    done = machine.metier("mcp", "import", str(file), "--yes", check=1)
    assert says in done.stderr


def test_a_file_that_is_both_the_users_and_the_projects_is_read_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = machine.home / ".cursor"
    folder.mkdir()
    (folder / "mcp.json").write_text("{}", encoding="utf-8")
    assert len(files_of("cursor", str(machine.home))) == 1


@pytest.mark.parametrize(
    ("command", "args"),
    [
        ("metier", ["mcp"]),
        (str(Path(sys.executable).with_name("metier")), ["mcp", "--as", "agent:a"]),
        (sys.executable, ["-m", "metier", "mcp"]),
    ],
)
def test_our_own_entry_in_a_clients_configuration_is_passed_over_with_a_word(
    machine: Machine, command: str, args: list[str]
) -> None:
    configure(machine, metier={"command": command, "args": args})
    said = machine.metier("mcp", "import", "claude-code", "--yes").stdout
    assert "that is Metier itself" in said
    assert not (machine.state / "skills" / "metier").exists()


@pytest.mark.parametrize("text", ["a" + ".a" * 6_000 + " = 1", "a = " + "[" * 5_000, "a = " + "1" * 5_000])
def test_a_projects_file_that_costs_too_much_to_parse_is_not_read_and_said(
    machine: Machine, text: str
) -> None:
    path = machine.project / ".codex/config.toml"
    path.parent.mkdir()
    path.write_text(f"# theirs\n{text}\n", encoding="utf-8")
    [found] = servers_in(str(path), str(machine.project))
    assert isinstance(found, Unread)
    assert "cannot be read" in found.why and "at line 2" in found.why
