"""The echo skill of XBot's document, as it is written there, in Python, and in the old form: enabled by the host, with its module, its
channel and a message that goes out through it.

The example is read from the document when the test runs. It leaves out the class `EchoModule`, and only that is supplied here.
"""

import os
import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from household import configured, python_package, script_package, trusted
from machine import Machine
from metier import Runtime
from metier.model.outcome import Completed, Outcome
from metier.runtime.as_owner import call_as_owner

SEED = next((Path(__file__).parents[3] / "shared" / "seeds").glob("003_*.txt"), None)
ECHO = "xpell-agent-skill-echo"

MODULE_TS = """
class EchoModule {
  _name = "echo";
  sent: string[] = [];
  async _send(xcmd: any) { this.sent.push(xcmd.text); return { message_id: String(this.sent.length) }; }
  async _say(xcmd: any) { return { echo: xcmd.text }; }
  async _list() { return this.sent; }
}
"""
SKILL_PY = """
class EchoModule:
    name = 'echo'
    def __init__(self): self._sent = []
    def send(self, params, meta):
        self._sent.append(params['text'])
        return {'message_id': str(len(self._sent))}
    def say(self, params, meta): return {'echo': params['text']}
    def list(self, params, meta): return self._sent

class Skill:
    id = 'xpell-agent-skill-echo'
    version = '0.1.0-alpha.0'
    capabilities = {'kernel_ops': ['channels.configure']}
    async def on_enable(self, ctx):
        ctx.register_module(EchoModule())
        await ctx.execute('channels', 'register', {'channel': 'echo', 'connector_module': 'echo'})
        await ctx.execute('channels', 'configure', {'channel': 'echo', 'config': {'mode': 'echo'}})

skill = Skill()
"""
LEGACY_TS = """
export async function registerSkill(ctx: any) {
  ctx.registerModule(new EchoModule());
  await ctx.execute("channels", "register", { channel: "echo", connector_module: "echo" });
  let refused = "";
  try { await ctx.execute("channels", "configure", { channel: "echo", config: { mode: "echo" } }); }
  catch (error) { refused = error.name; }
  ctx.emit("echo.refused", refused);
  ctx.log("warn", refused);
}
"""


def example() -> str:
    """The example of the document, word for word."""
    assert SEED is not None
    found = re.search(
        r"^## Example\n+```ts\n(.*?)^```", SEED.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    assert found is not None
    assert "new EchoModule()" in found[1]
    return found[1]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(Path(os.path.realpath(tmp_path)))
    monkeypatch.setenv("HOME", str(made.home))
    return made


def as_written(machine: Machine) -> None:
    """The example in the folder that the document's own configuration names, and that configuration."""
    assert SEED is not None
    text = SEED.read_text(encoding="utf-8")
    config = next(
        each for each in re.findall(r"^```json\n(.*?)^```", text, re.DOTALL | re.MULTILINE) if "allow" in each
    )
    (machine.project / "agent.config.json").write_text(config, encoding="utf-8")
    folder = script_package(machine, ECHO, MODULE_TS + example())
    wanted = machine.project / "packages" / "agent-core" / "examples" / "skill-echo"
    wanted.parent.mkdir(parents=True)
    folder.rename(wanted)
    trusted(machine, ECHO)


def in_python(machine: Machine) -> None:
    python_package(machine, ECHO, SKILL_PY)
    allowed(machine)


def allowed(machine: Machine) -> None:
    configured(machine, ECHO, enabled=[ECHO])
    trusted(machine, ECHO)


@asynccontextmanager
async def host(machine: Machine) -> AsyncGenerator[Runtime]:
    async with Runtime.open(
        project=str(machine.project), home=str(machine.state), watch=False, host=True
    ) as runtime:
        assert runtime.is_host
        yield runtime


async def ask(runtime: Runtime, tool: str, **arguments: Any) -> Any:
    outcome: Outcome = await call_as_owner(runtime, tool, arguments)
    assert isinstance(outcome, Completed), outcome
    return outcome.value


async def until(runtime: Runtime, tool: str, is_so: Callable[[Any], bool], **arguments: Any) -> Any:
    found: Any = None
    with anyio.move_on_after(30):
        while not is_so(found := await ask(runtime, tool, **arguments)):
            await anyio.sleep(0.05)
        return found
    raise AssertionError(found)


def is_loaded(record: dict[str, Any]) -> bool:
    return record["status"] == "loaded"


@pytest.mark.skipif(SEED is None, reason="the documents are not beside this tree")
@pytest.mark.parametrize("written", [as_written, in_python], ids=["typescript", "python"])
def test_the_echo_skill_of_the_document_lives_with_its_module_and_its_channel(
    written: Any, machine: Machine
) -> None:
    written(machine)

    async def main() -> None:
        async with host(machine) as runtime:
            record = await until(runtime, "skills.info", is_loaded, skill_id=ECHO)
            assert (record["id"], record["version"]) == (ECHO, "0.1.0-alpha.0")
            assert record["capabilities"]["kernel_ops"] == ["channels.configure"]
            assert record["modules_registered"] == ["echo"]
            assert await ask(runtime, "echo.say", text="hi") == {"echo": "hi"}
            channels = (await ask(runtime, "channels.list"))["channels"]
            (echo,) = [each for each in channels if "echo" in each.values()]
            assert {"mode": "echo"} in echo.values()
            # What is sent on the channel goes out through the skill's own module, once.
            await ask(runtime, "channels.send_message", channel="echo", chat_id="7", text="hello")
            await until(runtime, "echo.list", lambda sent: sent == ["hello"])
            await ask(runtime, "skills.disable", skill_id=ECHO)
            channels = (await ask(runtime, "channels.list"))["channels"]
            assert not any("echo" in each.values() for each in channels)

    anyio.run(main)


@pytest.mark.skipif(SEED is None, reason="the documents are not beside this tree")
def test_without_the_declaration_the_same_skill_may_not_configure_its_channel(machine: Machine) -> None:
    undeclared = example().replace('kernel_ops: ["channels.configure"]', "kernel_ops: []")
    assert undeclared != example()
    script_package(machine, ECHO, MODULE_TS + undeclared)
    allowed(machine)

    async def main() -> None:
        async with host(machine) as runtime:
            record = await until(
                runtime, "skills.info", lambda record: "channels" in (record["error"] or ""), skill_id=ECHO
            )
            assert record["status"] == "error"
            assert "channels.configure was refused" in record["error"]

    anyio.run(main)


def test_a_package_that_exports_register_skill_lives_without_capabilities_and_warns(machine: Machine) -> None:
    script_package(machine, ECHO, MODULE_TS + LEGACY_TS)
    allowed(machine)

    async def main() -> None:
        async with host(machine) as runtime:
            record = await until(runtime, "skills.info", is_loaded, skill_id=ECHO)
            assert record["capabilities"] == {"kernel_ops": [], "channels": [], "network": False}
            assert "deprecated" in record["warnings"][0]
            assert await ask(runtime, "echo.say", text="hi") == {"echo": "hi"}
            channels = (await ask(runtime, "channels.list"))["channels"]
            (echo,) = [each for each in channels if "echo" in each.values()]
            assert {"mode": "echo"} not in echo.values()  # that one was refused to it

    anyio.run(main)
    said = "\n".join(path.read_text(encoding="utf-8") for path in (machine.state / "calls").glob("*.jsonl"))
    assert "E_AGENT_FORBIDDEN" in said
