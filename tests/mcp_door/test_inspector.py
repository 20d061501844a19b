"""The MCP inspector's command line, a client that is not of our making and not in our language."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from mcp_desk import Desk

PACKAGE = "@modelcontextprotocol/inspector@2.12.0"
ERAS = ("legacy", "modern")


def installed(folder: Path) -> str:
    """The inspector, where it is or can be had."""
    node = shutil.which("node")
    if node is None or shutil.which("npm") is None:
        pytest.skip("the inspector takes node and npm, and they are not here")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    if int(version.lstrip("v").partition(".")[0]) < 20:
        pytest.skip(f"the inspector takes node 20, and this is {version.strip()}")
    place = Path(os.environ.get("METIER_INSPECTOR", folder))
    program = place / "node_modules" / ".bin" / "mcp-inspector"
    if not program.exists():
        place.mkdir(parents=True, exist_ok=True)
        try:
            done = subprocess.run(
                [
                    "npm",
                    "install",
                    "--no-audit",
                    "--no-fund",
                    "--silent",
                    "--fetch-retries=0",
                    "--fetch-timeout=20000",
                    "--prefix",
                    str(place),
                    PACKAGE,
                ],
                capture_output=True,
                text=True,
                timeout=150,
            )
        except subprocess.TimeoutExpired:
            pytest.skip("the inspector could not be had in time")
        if done.returncode or not program.exists():
            pytest.skip(f"the inspector could not be had: {done.stderr[-300:]}")
    return str(program)


@pytest.fixture(scope="session")
def inspector(tmp_path_factory: pytest.TempPathFactory) -> str:
    return installed(tmp_path_factory.mktemp("inspector"))


def inspect(inspector: str, desk: Desk, era: str, target: list[str], *asked: str, fails: bool = False) -> Any:
    command = [inspector, "--cli", *target, "--protocol-era", era, "--format", "json", "--quiet", *asked]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=50,
        cwd=desk.machine.project,
        env={**desk.machine.environ, "PATH": os.path.dirname(shutil.which("node") or "") + ":/usr/bin:/bin"},
    )
    assert fails or done.returncode == 0, (done.returncode, done.stdout[-2_000:], done.stderr[-2_000:])
    return json.loads(done.stdout.splitlines()[0])


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_over_standard_input_and_output(inspector: str, desk: Desk, era: str) -> None:
    started = desk.process()
    target = [started.command, *started.args]
    tools = inspect(inspector, desk, era, target, "--method", "tools/list", "--strict")
    assert "tea__count" in {each["name"] for each in tools["result"]["tools"]}
    called = ("--method", "tools/call", "--tool-name", "tea__count", "--tool-args-json", '{"text":"a b"}')
    assert inspect(inspector, desk, era, target, *called)["result"]["structuredContent"] == {"words": 2}
    waits = ("--method", "tools/call", "--tool-name", "tea__pour")
    done = inspect(inspector, desk, era, target, *waits, fails=True)
    assert done["result"]["isError"] and "pending_approval" in str(done)


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_over_http_and_its_check_of_every_digest(inspector: str, desk: Desk, era: str) -> None:
    token = desk.token()

    async def main() -> None:
        async with desk.served() as url:
            target = [url, "--header", f"Authorization: Bearer {token.text}"]

            async def ask(*asked: str) -> Any:
                return await anyio.to_thread.run_sync(lambda: inspect(inspector, desk, era, target, *asked))

            tools = await ask("--method", "tools/list", "--strict")
            assert "tea__count" in {each["name"] for each in tools["result"]["tools"]}
            called = (
                "--method",
                "tools/call",
                "--tool-name",
                "tea__count",
                "--tool-args-json",
                '{"text":"a"}',
            )
            assert (await ask(*called))["result"]["structuredContent"] == {"words": 1}
            read = await ask("--method", "resources/read", "--uri", "skill://tea/SKILL.md")
            assert "Boil, then pour." in read["result"]["contents"][0]["text"]
            prompts = await ask("--method", "prompts/list")
            assert "tea" in {each["name"] for each in prompts["result"]["prompts"]}
            if era == "modern":  # the older generation has no extensions
                verified = await ask("--method", "skills/list", "--verify", "--require-digests")
                assert verified["uri"] == "skill://tea/SKILL.md" and not verified["conformance"]
                assert {each["status"] for each in verified["files"]} == {"verified"}

    anyio.run(main)
