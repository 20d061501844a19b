"""Resources, prompts, files that calls made, and lists that change while somebody is connected."""

import hashlib
import json
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import ToolListChangedNotification

from mcp_desk import _TOOL, EVERY, FILES, WAYS, Desk, skill_text, text_of
from metier.catalog.here import owner
from metier.model.role import Registered
from metier.record.principals import add_principal, revoke_principal

every = pytest.mark.parametrize(("way", "mode"), EVERY)
OTHER = "agent:other"


def text_in(result: Any) -> str:
    [content] = result.contents
    return content.text


@every
def test_a_skill_is_a_resource_whose_bytes_are_those_of_its_manifest(desk: Desk, way: str, mode: str) -> None:
    async def main() -> None:
        async with desk.client(way, mode) as client:
            uris = {str(each.uri) for each in (await client.list_resources()).resources}
            assert {"skill://tea/SKILL.md", "skill://tea/_manifest"} <= uris
            [template] = (await client.list_resource_templates()).resource_templates
            assert template.uri_template == "skill://{name}/{+path}"
            manifest = json.loads(text_in(await client.read_resource("skill://tea/_manifest")))
            assert manifest["digest"].startswith("sha256:") and manifest["version"] == "1.0.0"
            assert {each["path"] for each in manifest["files"]} == {"SKILL.md", *FILES}
            for each in manifest["files"]:
                text = text_in(await client.read_resource(f"skill://tea/{each['path']}"))
                assert hashlib.sha256(text.encode()).hexdigest() == each["sha256"]

    anyio.run(main)
    read = [each for each in desk.records() if each.event == "skill_executed"]
    assert {each.tool for each in read} == {"read_skill"}, "each reading is a call on the record"


NONE = (
    "skill://tea/../../etc/passwd",
    "skill://tea/%2e%2e/state.db",
    "skill://tea//etc/passwd",
    "skill://tea/",
    "skill://none/SKILL.md",
    "metier://out/call_x/tea.csv",
    "file:///etc/passwd",
    "skill://tea/SKILL.md%00",
    "skill://" + "a" * 4_000,
)


def test_what_is_no_resource_cannot_be_read_by_any_spelling(desk: Desk) -> None:
    async def main() -> None:
        async with desk.client("lines", "legacy") as client:
            for uri in NONE:
                with pytest.raises(MCPError) as raised:
                    await client.read_resource(uri)
                said = str(raised.value)
                assert "root:" not in said and str(desk.machine.top) not in said

    anyio.run(main)


@every
def test_a_skill_for_people_is_a_prompt(desk: Desk, way: str, mode: str) -> None:
    async def main() -> None:
        async with desk.client(way, mode) as client:
            prompts = {each.name: each for each in (await client.list_prompts()).prompts}
            assert prompts["tea"].description == "Makes tea."
            [message] = (await client.get_prompt("tea", {"request": "for two"})).messages
            assert "Boil, then pour." in message.content.text and message.content.text.endswith("for two")
            with pytest.raises(MCPError):
                await client.get_prompt("nothing")

    anyio.run(main)


@pytest.mark.parametrize("way", WAYS)
def test_what_the_operator_did_not_trust_is_neither_shown_nor_read(desk: Desk, way: str) -> None:
    desk.write("SKILL.md", "---\nname: lemon\ndescription: Squeezes.\n---\n\nSqueeze.\n", skill="lemon")
    root = desk.machine.project / "skills" / "wild"
    root.mkdir(parents=True)
    (root / "SKILL.md").write_text("---\nname: wild\ndescription: Wild.\n---\n\nDo as I say.\n")

    async def main() -> None:
        async with desk.client(way, "legacy") as client:
            assert "wild" not in {each.name for each in (await client.list_prompts()).prompts}
            with pytest.raises(MCPError):
                await client.read_resource("skill://wild/SKILL.md")
            with pytest.raises(MCPError):
                await client.get_prompt("wild")

    anyio.run(main)


@every
def test_a_file_that_a_call_made_is_a_link_that_its_principal_reads(desk: Desk, way: str, mode: str) -> None:
    async def main() -> None:
        async with desk.client(way, mode) as client:
            done = await client.call_tool("tea__leave", {})
            [link] = [each for each in done.content if each.type == "resource_link"]
            assert (link.name, link.mime_type, link.size) == ("tea.csv", "text/csv", 3)
            assert text_in(await client.read_resource(str(link.uri))) == "a,b"
            assert str(link.uri) in {str(each.uri) for each in (await client.list_resources()).resources}
            [kept] = (desk.machine.state / "workspace" / "out").rglob("tea.csv")
            kept.chmod(0o600)
            kept.write_text("other")
            with pytest.raises(MCPError, match="not what the call left"):
                await client.read_resource(str(link.uri))
            kept.unlink()
            with pytest.raises(MCPError, match="not there any more"):
                await client.read_resource(str(link.uri))

    anyio.run(main)


def test_a_file_that_is_larger_than_what_is_handed_out_is_told_as_that(desk: Desk) -> None:
    desk.patch.setattr("metier.doors.mcp.artifacts.MOST_BYTES", 2)

    async def main() -> None:
        async with desk.client("http", "legacy") as client:
            done = await client.call_tool("tea__leave", {})
            [link] = [each for each in done.content if each.type == "resource_link"]
            with pytest.raises(MCPError, match="3 bytes, and at most 2") as raised:
                await client.read_resource(str(link.uri))
            assert str(desk.machine.top) not in str(raised.value)

    anyio.run(main)


@pytest.mark.parametrize("control", [False, True], ids=["another principal", "the same one"])
def test_cap_13_a_file_of_another_principal_is_none_at_all(desk: Desk, control: bool) -> None:
    with desk.database() as database:
        other = Registered(id=OTHER, kind="agent", on_behalf_of=owner(), roles=frozenset({"agent"}))
        assert add_principal(database, other, by=owner(), owner=owner()) == ""
    mine, his = desk.token(), desk.token() if control else desk.token(OTHER)

    async def with_token(url: str, token: Any, act: Any) -> Any:
        headers = {"Authorization": f"Bearer {token.text}"}
        async with httpx2.AsyncClient(headers=headers) as http:
            transport = streamable_http_client(url, http_client=http)
            async with Client(transport, mode="legacy", cache=None) as client:
                return await act(client)

    async def leave(client: Any) -> str:
        done = await client.call_tool("tea__leave", {})
        return next(str(each.uri) for each in done.content if each.type == "resource_link")

    async def main() -> None:
        async with desk.served() as url:
            uri = await with_token(url, mine, leave)
            if control:
                assert text_in(await with_token(url, his, lambda client: client.read_resource(uri))) == "a,b"
                return

            async def try_it(client: Any) -> Any:
                with pytest.raises(MCPError, match="there is no such resource"):
                    await client.read_resource(uri)
                return await client.list_resources()

            listed = await with_token(url, his, try_it)
            assert uri not in {str(each.uri) for each in listed.resources}

    anyio.run(main)


NEW = _TOOL.format(name="stir", about="Stirs.", effect="read", risk="low", more="")


@pytest.mark.parametrize("way", WAYS)
def test_a_list_that_changes_while_connected_is_told_to_the_older_generation(desk: Desk, way: str) -> None:
    told = anyio.Event()

    async def heard(message: Any) -> None:
        if isinstance(message, ToolListChangedNotification):
            told.set()

    async def main() -> None:
        async with desk.client(way, "legacy", message_handler=heard) as client:
            assert client.server_capabilities.tools is not None
            assert client.server_capabilities.tools.list_changed is True
            before = {each.name for each in (await client.list_tools()).tools}
            await anyio.sleep(0.5)  # over HTTP the stream that carries it is opened beside
            await _another_tool(desk)
            with anyio.fail_after(15):
                await told.wait()
            after = {each.name for each in (await client.list_tools()).tools}
            assert after - before == {"tea__stir"}
            done = await client.call_tool("tea__stir", {})
            assert text_of(done) == "stirred"

    anyio.run(main)


@pytest.mark.parametrize("way", WAYS)
def test_a_list_that_changes_while_connected_is_told_to_the_newer_generation(desk: Desk, way: str) -> None:
    async def main() -> None:
        async with desk.client(way, "2026-07-28") as client:
            before = {each.name for each in (await client.list_tools()).tools}
            async with client.listen(tools_list_changed=True) as changes:
                await _another_tool(desk)
                with anyio.fail_after(15):
                    await anext(aiter(changes))
            after = {each.name for each in (await client.list_tools()).tools}
            assert after - before == {"tea__stir"}

    anyio.run(main)


async def _another_tool(desk: Desk) -> None:
    def change() -> None:
        desk.write("stir.py", "def main(params, context):\n    return 'stirred'\n")
        desk.write("SKILL.md", skill_text(NEW))
        desk.trust()

    await anyio.to_thread.run_sync(change)


@every
def test_cap_12_who_is_revoked_while_connected_sees_and_does_nothing_any_more(
    desk: Desk, way: str, mode: str
) -> None:
    async def main() -> None:
        async with desk.client(way, mode) as client:
            assert (await client.list_tools()).tools
            with desk.database() as database:
                assert revoke_principal(database, "agent:helper", by=owner(), owner=owner()) == ""
            if way == "http":
                with pytest.raises(MCPError):
                    await client.list_tools()
                return
            assert (await client.list_tools()).tools == []
            assert (await client.list_resources()).resources == []
            for name, given in (
                ("tea__count", {"text": "one"}),
                ("tea__count", {"text": 5}),
                ("tea__coun", {}),
                ("nothing", {}),
                ("read_skill", {"name": "te"}),
            ):
                said = text_of(await client.call_tool(name, given))
                assert '"error":"forbidden"' in said and "revoked" in said, said
                assert "tea" not in said and "fs_read" not in said
            with pytest.raises(MCPError, match="no such prompt"):
                await client.get_prompt("tea")

    anyio.run(main)
