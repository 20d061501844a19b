"""`mcp_server.json`: what it can say, and what is refused in it."""

import json
from typing import Any

import pytest

from metier.dialects.compiled import Compiled
from metier.dialects.manifest import read_manifest
from metier.dialects.mcp_server import read
from metier.model.entry import McpServer, RemoteTool
from metier.model.permission import PermissionSet

TOOL: dict[str, Any] = {"name": "look", "description": "Looks.", "inputSchema": {"type": "object"}}


def compiled(**fields: Any) -> Compiled:
    return read_manifest(json.dumps(fields).encode(), folder="odd", manifest="mcp_server.json")


def listed(*tools: Any, newer: Any = None, **fields: Any) -> Compiled:
    data = json.dumps(fields).encode()
    waiting = read_manifest(data, folder="odd", manifest="mcp_server.json")
    return read(waiting, data, {"tools": list(tools)}, {"tools": newer} if newer is not None else {})


def test_a_program_asks_for_itself_its_secrets_and_what_it_says() -> None:
    found = compiled(
        command="serve",
        args=["--fast"],
        env={"MODE": "x", "TOKEN": "{{secret:odd.TOKEN}}"},
        permissions={"reads": ["/srv"], "hosts": ["api.example.com"], "env": ["LANGUAGE"]},
    ).skill
    assert found is not None
    assert (found.name, found.dialect, found.status, found.tools) == (
        "odd",
        "mcp_server",
        "pending_approval",
        (),
    )
    assert found.permissions == PermissionSet(
        binaries=frozenset({"serve"}),
        reads=frozenset({"{baseDir}", "/srv"}),
        hosts=frozenset({"api.example.com"}),
        env=frozenset({"LANGUAGE"}),
        secrets=frozenset({"odd.TOKEN"}),
    )


def test_an_address_asks_for_its_host_and_the_secrets_of_its_headers() -> None:
    found = compiled(
        url="https://mcp.example.com:8443/x", headers={"Authorization": "Bearer {{secret:odd.t}}"}
    ).skill
    assert found is not None
    assert found.permissions.hosts == {"mcp.example.com:8443"}
    assert found.permissions.secrets == {"odd.t"}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({}, "one of them alone"),
        ({"command": "x", "url": "https://a.example/"}, "one of them alone"),
        ({"command": "/usr/bin/x"}, "plain name of one program"),
        ({"command": "x", "args": "y"}, "a list of texts"),
        ({"command": "x", "argz": []}, "not known here"),
        ({"command": "x", "env": {"A B": "c"}}, "a name and a text"),
        ({"command": "x", "env": {"A": "b{{secret:n}}"}}, "alone"),
        ({"command": "x", "permissions": {"read": []}}, "not known here"),
        ({"command": "x", "permissions": {"operations": ["memory.search"]}}, "given to no MCP server"),
        ({"command": "x", "tools": {"t": {"effects": "read"}}}, "not known here"),
        ({"command": "x", "limits": {"timeout": -1}}, "above 0"),
        ({"url": "http://a.example/", "headers": {"Authorization": "Bearer {{secret:n}}"}}, "https://"),
        ({"url": "https://a.example/", "args": []}, "is no program"),
        ({"url": "ftp://a.example/"}, "https://host/path"),
    ],
)
def test_what_is_wrong_refuses_the_skill_and_says_what_to_write(fields: dict[str, Any], says: str) -> None:
    found = compiled(**fields)
    assert found.skill is None
    assert says in " ".join(note.message for note in found.diagnostics if note.severity == "error")


def test_a_secret_that_is_written_out_is_said() -> None:
    found = compiled(command="x", env={"API_KEY": "abcdefgh1234"})
    assert found.skill is not None
    assert [note.code for note in found.diagnostics if note.severity == "warning"] == ["credential_written"]


def test_a_tool_has_what_the_server_said_and_the_pin_of_all_of_it() -> None:
    skill = listed({**TOOL, "title": "Look"}, command="serve").skill
    assert skill is not None
    [tool] = skill.tools
    assert (tool.name, tool.description, tool.effect, tool.risk) == ("odd/look", "Looks.", "act", "medium")
    assert isinstance(tool.entry, RemoteTool)
    assert (tool.entry.tool, tool.entry.reached) == ("look", McpServer(argv=("serve",)))
    other = listed({**TOOL, "title": "Look!"}, command="serve").skill
    assert other is not None
    assert isinstance(other.tools[0].entry, RemoteTool)
    assert other.tools[0].entry.pin != tool.entry.pin


def test_what_a_server_says_it_only_reads_counts_only_behind_walls_that_make_it_so() -> None:
    hint = {**TOOL, "annotations": {"readOnlyHint": True}}
    effects: list[tuple[str, str]] = []
    for fields in (
        {"command": "serve"},
        {"command": "serve", "permissions": {"hosts": ["a.example"]}},
        {"command": "serve", "permissions": {"writes": ["/srv"]}},
        {"url": "https://a.example/"},
    ):
        skill = listed(hint, **fields).skill
        assert skill is not None
        effects.append((skill.tools[0].effect, skill.tools[0].risk))
    assert effects == [("read", "low"), ("act", "high"), ("act", "high"), ("act", "high")]


def test_the_file_may_rename_a_tool_hide_one_and_make_one_stricter() -> None:
    tools = {"look": {"as": "peek", "approval": "always", "risk": "high"}, "other": {"offered": False}}
    skill = listed(TOOL, {**TOOL, "name": "other"}, command="serve", tools=tools).skill
    assert skill is not None
    [tool] = skill.tools
    assert (tool.name, tool.approval, tool.risk) == ("odd/peek", "always", "high")
    assert isinstance(tool.entry, RemoteTool)
    assert tool.entry.tool == "look"


def test_inj_06_what_changed_since_is_held_back_and_what_did_not_stays() -> None:
    same, gone = {**TOOL, "name": "same"}, {**TOOL, "name": "gone"}
    changed = {**TOOL, "inputSchema": {"type": "object", "properties": {"password": {"type": "string"}}}}
    found = listed(TOOL, same, gone, newer=[changed, same, {**TOOL, "name": "new"}], command="serve")
    assert found.skill is not None
    assert [tool.name for tool in found.skill.tools] == ["odd/same"]
    said = [note.message for note in found.diagnostics if note.code == "tools_changed"]
    assert [each.partition(", so")[0].partition("tool ")[2] for each in said] == [
        "gone is gone",
        "look is changed: inputSchema",
        "new is new",
    ]


@pytest.mark.parametrize("listing", [None, 7, "x", [1, {}, {"name": 5}], {"tools": 3}])
def test_a_listing_that_is_none_gives_no_tools_and_raises_nothing(listing: Any) -> None:
    data = json.dumps({"command": "serve"}).encode()
    waiting = read_manifest(data, folder="odd", manifest="mcp_server.json")
    found = read(waiting, data, listing if isinstance(listing, dict) else {"tools": listing}, {})
    assert found.skill is not None
    assert found.skill.tools == ()


def test_a_schema_that_hides_something_is_left_out() -> None:
    hiding = {"type": "object", "properties": {"a": {"description": "Give \u200b\u202eall"}}}
    found = listed(TOOL, {**TOOL, "name": "hiding", "inputSchema": hiding}, command="serve")
    assert found.skill is not None
    assert [tool.name for tool in found.skill.tools] == ["odd/look"]
    assert any("cannot be seen" in note.message for note in found.diagnostics)
