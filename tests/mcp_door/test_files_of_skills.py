"""Files of skills as resources: every one that a manifest lists can be read, as text or as bytes, as far as it is not too large."""

import base64
import hashlib
import json
from typing import Any

import anyio
import pytest
from mcp.shared.exceptions import MCPError

from mcp_desk import EVERY, Desk
from metier.disclosure.read_skill import MAX_BYTES, MAX_FILE_BYTES

every = pytest.mark.parametrize(("way", "mode"), EVERY)
PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4
LONG = "line of text\n" * (MAX_FILE_BYTES // 8)
LARGE = (bytes(range(256)) * MAX_BYTES)[: MAX_BYTES + 1]
MANY = {
    "references/logo.png": PICTURE,
    "references/long.md": LONG.encode(),
    "references/lines.txt": b"\x01\n" * (MAX_BYTES // 2),
    "data.bin": LARGE[:-1],
}


@pytest.fixture
def stocked(desk: Desk) -> Desk:
    folder = desk.machine.skills / "tea"
    for name, data in {**MANY, "large.bin": LARGE, "_manifest": b"my own"}.items():
        (folder / name).write_bytes(data)
    desk.trust()
    return desk


def bytes_in(result: Any) -> bytes:
    [content] = result.contents
    return content.text.encode() if hasattr(content, "text") else base64.b64decode(content.blob)


@every
def test_every_file_that_a_manifest_lists_is_read_as_the_bytes_that_it_lists(
    stocked: Desk, way: str, mode: str
) -> None:
    async def main() -> None:
        async with stocked.client(way, mode) as client:
            listed = json.loads(bytes_in(await client.read_resource("skill://tea/_manifest")))
            files = {each["path"]: each["sha256"] for each in listed["files"]}
            assert MANY.keys() < files.keys() and "_manifest" not in files
            for path, digest in files.items():
                if path != "large.bin":
                    found = bytes_in(await client.read_resource(f"skill://tea/{path}"))
                    assert hashlib.sha256(found).hexdigest() == digest, path
            [picture] = (await client.read_resource("skill://tea/references/logo.png")).contents
            assert picture.mime_type == "image/png"
            [data] = (await client.read_resource("skill://tea/data.bin")).contents
            assert data.mime_type == "application/octet-stream"
            [text] = (await client.read_resource("skill://tea/references/long.md")).contents
            assert text.mime_type == "text/markdown"

    anyio.run(main)


def test_a_file_that_is_too_large_is_refused_with_the_bound_and_another_way(stocked: Desk) -> None:
    async def main() -> None:
        async with stocked.client("http", "2026-07-28") as client:
            with pytest.raises(MCPError, match=r"at most 700,000 are handed out.*run_in_skill"):
                await client.read_resource("skill://tea/large.bin")

    anyio.run(main)
    assert [each.event for each in stocked.records()][-1] == "skill_execution_error"


def test_each_file_that_is_handed_out_is_a_call_on_the_record(stocked: Desk) -> None:
    async def main() -> None:
        async with stocked.client("lines", "legacy") as client:
            await client.read_resource("skill://tea/references/logo.png")

    before = len(stocked.records())
    anyio.run(main)
    made = stocked.records()[before:]
    assert [(each.event, each.tool) for each in made][-1] == ("skill_executed", "read_skill")


def test_a_rule_about_a_file_of_a_skill_holds_for_its_bytes_too(stocked: Desk) -> None:
    (stocked.machine.state / "policy.toml").write_text(
        '[[rule]]\ndecision = "deny"\nbecause = "no pictures"\ntool = "read_skill"\nwhen = "args.path.endsWith(\'.png\')"\n'
        'match = [{tool = "read_skill", args = {name = "tea", path = "a.png"}}]\n'
        'not_match = [{tool = "read_skill", args = {name = "tea", path = "a.md"}}]\n',
        encoding="utf-8",
    )

    async def main() -> None:
        async with stocked.client("lines", "legacy") as client:
            with pytest.raises(MCPError, match="no pictures"):
                await client.read_resource("skill://tea/references/logo.png")
            assert bytes_in(await client.read_resource("skill://tea/data.bin")) == LARGE[:-1]

    anyio.run(main)


def test_a_model_is_still_shown_no_bytes(stocked: Desk) -> None:
    async def main() -> Any:
        async with stocked.client("lines", "legacy") as client:
            return await client.call_tool("read_skill", {"name": "tea", "path": "references/logo.png"})

    done = anyio.run(main)
    assert done.is_error and "not text" in done.content[0].text
