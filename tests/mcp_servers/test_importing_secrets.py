"""`metier mcp import` shows and writes no secret, wherever the configuration of the other client has it."""

import json
from pathlib import Path
from typing import Any

import pytest

from machine import Machine
from metier.doors.cli import mcp_secrets as module
from metier.doors.cli.mcp_found import Found
from metier.doors.cli.mcp_proposal import Proposal, propose

S = "S3cretPass9"
HEX = "0123456789abcdef0123456789abcdef01234567"


def proposed(**fields: Any) -> Proposal:
    return propose(Found(name="srv", file="/x.json", fields=fields), path="/usr/bin:/bin")


LINES = [
    ["npx", "-y", "@modelcontextprotocol/server-postgres", f"postgresql://me:{S}@db.example.com/mydb"],
    ["npx", "-y", "@modelcontextprotocol/server-postgres", f"postgresql://me:{S}/x@db.example.com/mydb"],
    ["npx", "-y", "figma-developer-mcp", "--figma-api-key", S, "--stdio"],
    ["npx", "-y", "@supabase/mcp-server-supabase@latest", "--access-token", S],
    ["npx", "-y", "x", f"--token={S}"],
    ["npx", "-y", "mcp-remote", "https://x.example.com/mcp", "--header", f"Authorization: Bearer {S}"],
    ["npx", "-y", "mcp-remote", f"https://x.example.com/mcp?tavilyApiKey={S}"],
    ["npx", "-y", "x", f"lin_api_{HEX}"],
    ["npx", "-y", "@smithery/cli@latest", "run", "@x/y", "--key", "0123abcd-0123-0123-0123-0123456789ab"],
    ["uvx", "--index-url", f"https://me:{S}@pypi.corp.example/simple", "x"],
    ["uvx", "--from", f"git+https://{HEX}@github.com/a/b", "serve"],
    ["uvx", "--password", S, "x"],
    ["/usr/bin/python3", "/opt/srv.py", f"--api-key={S}"],
    ["serve", "--config", json.dumps({"apiKey": S})],
    ["serve", "--config", json.dumps(json.dumps({"apiKey": S}))],
    ["bash", "-c", f"API_KEY={S} exec srv"],
    [f"TOKEN={S} serve"],
]


@pytest.mark.parametrize("line", LINES, ids=lambda line: " ".join(line)[:40])
def test_a_line_with_a_secret_is_refused_and_not_shown(line: list[str]) -> None:
    found = proposed(command=line[0], args=line[1:])
    assert "a secret may stand among its arguments" in found.problem
    assert not {S, HEX} & set(repr(found).split()), found
    assert S not in repr(found)
    assert HEX not in repr(found)


@pytest.mark.parametrize(
    "line",
    [
        ["npx", "-y", "@scope/some-long-server-name@1.20.3", "--port", "3000", "--max-tokens", "4096"],
        [
            "uvx",
            "--from",
            f"git+https://github.com/a/b@{HEX}",
            "serve",
            "--model",
            "Qwen2.5-Coder-32B-Instruct",
        ],
        ["uvx", "--from", "git+ssh://git@github.com/a/b", "serve"],
        ["serve", "--token-file", "/etc/hostname", "--url", "https://a1b2c3d4e5f6g7h8i9.example.com/mcp"],
        ["serve", "--model", "claude-sonnet-4-5-20250929", "postgresql://localhost:5432/mydb"],
    ],
    ids=lambda line: " ".join(line)[:40],
)
def test_a_line_without_one_is_taken_over(line: list[str]) -> None:
    assert proposed(command=line[0], args=line[1:]).problem == ""


@pytest.mark.parametrize(
    "url",
    [
        f"https://mcp.tavily.com/mcp/?tavilyApiKey={S}",
        f"https://mcp.tavily.com/mcp/?tavily%41piKey={S}",
        f"https://mcp.zapier.com/api/mcp/s/{HEX}==/mcp",
        f"https://me:{S}@mcp.example.com/mcp",
        f"https://{S}@mcp.example.com/mcp",
        f"https://mcp.example.com/mcp#access_token={S}",
    ],
)
def test_an_address_with_a_secret_is_refused_and_not_shown(url: str) -> None:
    found = proposed(url=url)
    assert "a secret may stand in its url" in found.problem
    assert S not in repr(found)
    assert HEX not in repr(found)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("OPENAPI_MCP_HEADERS", json.dumps({"Authorization": f"Bearer {S}", "Notion-Version": "2022-06-28"})),
        ("LINEAR", f"lin_api_{HEX}"),
        ("DB_CONN", f"Server=h;User Id=u;Password={S};"),
        ("WHERE", f"https://x.example.com/?key={S}"),
        ("THING", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEWORD"),
        ("MUCH", "a " * module._LONGEST),  # pyright: ignore[reportPrivateUsage]
    ],
)
def test_a_variable_whose_value_carries_one_becomes_a_name(variable: str, value: str) -> None:
    found = proposed(command="serve", env={variable: value, "MODE": "fast", "TEAM": "T01234567"})
    assert found.manifest["env"] == {
        variable: f"{{{{secret:srv.{variable}}}}}",
        "MODE": "fast",
        "TEAM": "T01234567",
    }
    assert found.secrets == {f"srv.{variable}": value}


@pytest.mark.parametrize("header", ["CONTEXT7_API_KEY", "X-Auth", "x_api_key", "Private-Token", "Cookie"])
def test_a_header_that_is_called_like_one_becomes_a_name(header: str) -> None:
    found = proposed(url="https://mcp.example.com/mcp", headers={header: S, "X-Team": "us"})
    assert found.manifest["headers"] == {header: f"{{{{secret:srv.{header}}}}}", "X-Team": "us"}
    assert found.secrets == {f"srv.{header}": S}


def test_a_server_whose_name_begins_with_a_digit_has_secrets_too() -> None:
    found = propose(
        Found(name="1password", file="/x.json", fields={"command": "op", "env": {"OP_TOKEN": S}}), path=""
    )
    assert found.secrets == {"mcp.1password.OP_TOKEN": S}


def test_none_is_printed_or_lies_in_metiers_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path)
    monkeypatch.setenv("HOME", str(machine.home))
    servers: dict[str, Any] = {
        f"line{number}": {"command": line[0], "args": line[1:]} for number, line in enumerate(LINES)
    }
    servers |= {
        "url": {"url": f"https://me:{S}@mcp.example.com/mcp"},
        "header": {"url": "https://mcp.example.com/mcp", "headers": {"CONTEXT7_API_KEY": S}},
        "variable": {"command": "serve", "env": {"HEADERS": f"Authorization: Bearer {S}"}},
        "1password": {"command": "serve", "env": {"OP_TOKEN": S}},
    }
    (machine.project / ".mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    done = machine.metier("mcp", "import", "claude-code", "--yes", "--secrets", check=1)
    for secret in (S, HEX):
        assert secret not in done.stdout + done.stderr
        for path in machine.state.rglob("*"):
            assert not path.is_file() or secret.encode() not in path.read_bytes(), path
    assert {each.name for each in machine.skills.iterdir()} == {"header", "variable", "1password"}
    assert "mcp.1password.OP_TOKEN" in machine.metier("secrets", "list").stdout
