"""What a client is told of what there is: only what its principal is shown, in the names it is shown, and to nobody who is let in no more."""

import json
import threading
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from mcp_desk import AGENT, ENVELOPE, EVERY, HELLO, Desk, asked, text_of, until_answered
from metier.catalog.here import owner
from metier.doors.mcp import peer
from metier.doors.mcp.peer import Peer
from metier.doors.mcp.skill_files import why_not
from metier.model.call import Principal
from metier.model.outcome import Refused
from metier.model.role import Registered
from metier.record.principals import add_principal, revoke_principal
from metier.runtime import Runtime

every = pytest.mark.parametrize(("way", "mode"), EVERY)
HIDDEN = """---
name: hidden
version: 1.0.0
description: Not for models.
disable-model-invocation: true
metadata:
  metier:
    tools:
      - name: boo
        description: Says boo.
        parameters: {type: object, properties: {}, additionalProperties: false}
        effect: read
        risk: low
        entry: {kind: python, path: boo.py}
---

# Hidden
"""


def revoke(desk: Desk) -> None:
    with desk.database() as database:
        assert revoke_principal(database, AGENT, by=owner(), owner=owner()) == ""


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
@pytest.mark.parametrize("revoked", [False, True], ids=["control", "revoked"])
def test_cap_12_who_is_revoked_is_told_of_no_skill_when_he_says_hello(
    desk: Desk, mode: str, revoked: bool
) -> None:
    async def main() -> None:
        async with desk.lines() as (out, back):
            if revoked:
                revoke(desk)
            hello = ("initialize", HELLO) if mode == "legacy" else ("server/discover", ENVELOPE)
            said = (await asked(out, back, *hello))["result"]["instructions"]
            assert ("Makes tea." in said) is not revoked
            assert "behind one gate" in said

    anyio.run(main)


def test_instructions_are_of_this_moment_and_for_who_asks(desk: Desk) -> None:
    async def main() -> None:
        async with desk.lines() as (out, back):

            async def said() -> str:
                return (await asked(out, back, "server/discover", ENVELOPE))["result"]["instructions"]

            assert "Makes tea." in await said()
            revoke(desk)
            assert "Makes tea." not in await said()

    anyio.run(main)


@every
def test_a_name_that_is_none_is_answered_with_what_the_client_was_shown(
    desk: Desk, way: str, mode: str
) -> None:
    desk.write("SKILL.md", HIDDEN, "hidden")
    desk.write("boo.py", "def main(params, context):\n    return 'boo'\n", "hidden")
    desk.trust("hidden")

    async def main() -> None:
        async with desk.client(way, mode) as client:
            shown = [each.name for each in (await client.list_tools()).tools]

            async def remedy(tool: str, **given: str) -> str:
                return json.loads(text_of(await client.call_tool(tool, given)))["remedy"]

            assert await remedy("nope") == f"Tools are: {', '.join(shown)}"
            assert "hidden" not in str(shown) and "run_in_skill" not in shown
            assert await remedy("tea__coun") == "Did you mean 'tea__count'?"
            assert "hidden" not in await remedy("hidden__bo")
            assert await remedy("read_skill", name="te") == "Did you mean 'tea'?"
            for near in ("hiden", "zzz"):
                assert "hidden" not in await remedy("read_skill", name=near)
            for name in ("hidden", "nothing"):
                with pytest.raises(MCPError, match="there is no such prompt"):
                    await client.get_prompt(name)

    anyio.run(main)


def test_a_file_that_is_called_as_our_list_of_files_is_on_no_list(desk: Desk) -> None:
    """What is read at its address is our list, and no digest of its own would fit that."""
    desk.write("_manifest", "mine")
    desk.write("sub/_manifest", "mine too")
    desk.trust()

    async def main() -> None:
        async with desk.lines() as (out, back):

            async def text(uri: str) -> str:
                answer = await asked(out, back, "resources/read", {**ENVELOPE, "uri": uri})
                return answer["result"]["contents"][0]["text"]

            manifest: dict[str, Any] = json.loads(await text("skill://tea/_manifest"))
            skills = (await asked(out, back, "skills/list", ENVELOPE))["result"]["skills"]
            [tea] = [each for each in skills if each["uri"] == "skill://tea/SKILL.md"]
            for paths in (
                {each["path"] for each in manifest["files"]},
                {each["uri"].removeprefix("skill://tea/") for each in tea["resources"]},
            ):
                assert "_manifest" not in paths and {"SKILL.md", "sub/_manifest"} <= paths
            assert await text("skill://tea/sub/_manifest") == "mine too"

    anyio.run(main)


def test_the_limit_of_a_file_that_can_be_read_is_said_where_files_are_asked_for(desk: Desk) -> None:
    desk.write("large.txt", "x" * 700_001)
    desk.trust()

    async def main() -> None:
        async with desk.client("http", "2026-07-28") as client:
            [template] = (await client.list_resource_templates()).resource_templates
            assert template.description is not None and "at most 700,000 bytes" in template.description
            with pytest.raises(MCPError, match="700,000"):
                await client.read_resource("skill://tea/large.txt")

    anyio.run(main)


@pytest.mark.parametrize("way", ["lines", "http"])
def test_a_client_from_elsewhere_is_told_nothing_of_this_machine(desk: Desk, way: str) -> None:
    """The local user's own client is told what to mend."""

    async def main() -> None:
        async with desk.client(way, "2026-07-28") as client:
            await client.list_tools()
            desk.configured("[mcp]\nsecret_thing = 1\n")
            said = text_of(await client.call_tool("tea__count", {}))
            assert '"error":"setup_unusable"' in said
            assert ("secret_thing" in said) is (way == "lines")
            if way == "http":
                assert str(desk.machine.top) not in said and "any `metier` command" in said

    anyio.run(main)


@pytest.mark.parametrize(("remote", "told"), [(False, True), (True, False)])
def test_what_could_not_be_recorded_names_no_file_to_a_client_from_elsewhere(
    remote: bool, told: bool
) -> None:
    peer = Peer(principal=Principal(id=AGENT, kind="agent"), connection="c", remote=remote)
    for code in ("setup_unusable", "record_unavailable"):
        refused = Refused(
            call_id="c", code=code, reasons=("/home/ada/state.db is gone",), remedy="Look there"
        )  # type: ignore[arg-type]
        assert ("/home" in why_not(peer, refused)) is told
    forbidden = Refused(call_id="c", code="forbidden", reasons=("a rule says no",))
    assert why_not(peer, forbidden) == "a rule says no"


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_nobody_is_told_that_single_resources_can_be_listened_to(desk: Desk, mode: str) -> None:
    async def main() -> None:
        async with desk.lines() as (out, back):
            hello = ("initialize", HELLO) if mode == "legacy" else ("server/discover", ENVELOPE)
            offered = (await asked(out, back, *hello))["result"]["capabilities"]
            assert not offered["resources"].get("subscribe") and offered["resources"]["listChanged"]
            if mode == "legacy":
                return
            wanted = {"toolsListChanged": True, "resourceSubscriptions": ["skill://tea/SKILL.md"]}
            listen = {**ENVELOPE, "notifications": wanted}
            line = {"jsonrpc": "2.0", "id": 3, "method": "subscriptions/listen", "params": listen}
            out.write(json.dumps(line).encode() + b"\n")
            said = (await until_answered(back))["params"]["notifications"]
            assert said == {"toolsListChanged": True}

    anyio.run(main)


@pytest.mark.parametrize("way", ["lines", "http"])
def test_what_a_model_is_told_first_is_not_put_together_on_the_loop(desk: Desk, way: str) -> None:
    where: list[bool] = []
    made = Runtime.prompt

    def watched(runtime: Runtime) -> str:
        where.append(threading.current_thread() is threading.main_thread())
        return made(runtime)

    desk.patch.setattr(Runtime, "prompt", watched)

    async def main() -> None:
        async with desk.client(way, "legacy"):
            pass

    anyio.run(main)
    assert where and not any(where)


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
def test_over_http_what_somebody_may_do_is_not_read_again_while_nothing_was_written(
    desk: Desk, mode: str
) -> None:
    def read(*given: Any) -> Any:
        raise AssertionError("the state was read")

    desk.patch.setattr(peer, "_standing", read)

    async def main() -> tuple[int, int]:
        async with desk.client("http", mode) as client:
            before = len((await client.list_tools()).tools) + len((await client.list_prompts()).prompts)
            with desk.database() as database:
                other = Registered(
                    id="agent:other", kind="agent", on_behalf_of=owner(), roles=frozenset({"agent"})
                )
                assert add_principal(database, other, by=owner(), owner=owner()) == ""
            return before, len((await client.list_resources()).resources)

    tools, resources = anyio.run(main)
    assert tools and resources
