"""What the gate and the record cost around a tool that does nothing.

    python benchmarks/pipeline.py [--json] [--peers PYTHON]

Beside it, in the same run: a bare pair of inserts and commits into SQLite (what any record that is on the disk before and
after an act costs at least), and, where they are installed for the interpreter PYTHON, one call of a langchain-core tool,
of a FastMCP tool in memory, and one tool step of pydantic-ai, none of which has a gate or a record. Each round measures
everything once, one after the other; what is printed are medians and their ratios. The langchain-core tool is an `async
def`; beside it stands one that is a plain function, which `ainvoke` runs in a thread.
"""

import argparse
import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from itertools import count
from typing import Any, Literal, TypeAlias

import anyio
from msgspec import structs

from metier.gate.conditions import condition
from metier.gate.rules import Names, Rule, Rules
from metier.model.call import ApprovedCall, Call, ValidCall
from metier.model.entry import Operation
from metier.model.outcome import Completed, Failed
from metier.model.skill import Tool
from metier.model.verdict import Decision
from metier.pipeline import House, run
from metier.record.recorder import Recorder
from metier.record.writer import Writer
from metier.runtime import Runtime

ROUNDS = 40
CALLS = 50
"""Calls, or pairs, in one round; a group that is shared, so that one slow moment of the disk does not decide."""
AT_ONCE = 64
TOOL = Tool(
    name="bench.nothing",
    description="Does nothing.",
    parameters={
        "type": "object",
        "properties": {"text": {"type": "string"}, "count": {"type": "integer"}},
        "required": ["text"],
        "additionalProperties": False,
    },
    effect="read",
    risk="low",
    minimum_trust="observe",
    entry=Operation(module="bench", operation="nothing"),
)
ARGUMENTS = {"text": "what the tool is given", "count": 3}
UNLIMITED = 1_000_000_000
Cost: TypeAlias = tuple[float, float]
"""Seconds that were waited, and seconds of processor time, for one call."""
_ids = count()


class Nothing:
    """Finds the operation that does nothing."""

    def find(self, module: str, operation: str) -> Any:
        return self._nothing

    async def _nothing(self, approved: ApprovedCall) -> Completed | Failed:
        return Completed(call_id=approved.authorized.valid.call.id, value={"done": True})


def house_of(
    runtime: Runtime, *, rules: Rules | None = None, pause: Callable[[], None] | None = None
) -> House:
    """The runtime's own house, with this tool in it and no budget in the way."""
    house = runtime._engine.house()
    look = house.look

    async def looked(valid: ValidCall) -> Any:
        found = await look(valid)
        return found if rules is None else structs.replace(found, rules=rules)

    state = runtime._engine.state
    recorder = Recorder(
        state.log, Writer(state.database, before_commit=pause), tools=[TOOL.name].__contains__
    )
    return structs.replace(
        house, tools={TOOL.name: TOOL}, operations=Nothing(), look=looked, recorder=recorder
    )


def a_call(runtime: Runtime) -> Call:
    return Call(
        id=f"call_{next(_ids):024x}",
        principal=runtime._principal,
        tool=TOOL.name,
        arguments=dict(ARGUMENTS),
    )


async def one(runtime: Runtime, house: House) -> None:
    outcome = await run(a_call(runtime), house)
    if not isinstance(outcome, Completed):
        sys.exit(f"the call was to run and did not: {outcome}")


def many_rules() -> Rules:
    """A thousand rules of which ten concern the tool, half of those with a condition."""
    made = [
        Rule(
            number=number + 1,
            decision=Decision.ASK,
            because="somebody has to look",
            names={"tool": Names(exact=frozenset({TOOL.name if number % 100 == 0 else f"other.{number}"}))},
            condition=condition(f"args.count > {1000 + number}") if number % 200 == 0 else None,
        )
        for number in range(1000)
    ]
    # The other half says something that allows it, so that the call goes on.
    return Rules(
        rules=tuple(
            structs.replace(rule, decision=Decision.ALLOW) if rule.condition is None else rule
            for rule in made
        )
    )


def pairs(folder: str, synchronous: str) -> Callable[[], None]:
    """A bare pair: what is stored for a call, with nothing around it."""
    connection = sqlite3.connect(os.path.join(folder, f"bare-{synchronous}.db"), isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={synchronous}")
    connection.execute(
        "CREATE TABLE record (seq INTEGER PRIMARY KEY, body BLOB NOT NULL, hash BLOB NOT NULL)"
    )
    body, digest = b"x" * 400, b"y" * 32

    def work() -> None:
        for _ in range(2):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO record (body, hash) VALUES (?, ?)", (body, digest))
            connection.execute("COMMIT")

    return work


def synchronous(runtime: Runtime, how: Literal["FULL", "NORMAL"]) -> None:
    runtime._engine.state.database._connection.execute(f"PRAGMA synchronous={how}")


async def timed(work: Callable[[], Awaitable[object]], times: int) -> Cost:
    began, busy = time.perf_counter(), time.process_time()
    for _ in range(times):
        await work()
    return (time.perf_counter() - began) / times, (time.process_time() - busy) / times


async def at_once(runtime: Runtime, house: House, times: int) -> Cost:
    """What a call costs when so many are made at the same time."""

    async def all_of_them() -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(AT_ONCE):
                tasks.start_soon(one, runtime, house)

    waited, busy = await timed(all_of_them, times)
    return waited / AT_ONCE, busy / AT_ONCE


PEERS = '''
import asyncio, sys, time, warnings
warnings.simplefilter("ignore")
ARGUMENTS = {"text": "what the tool is given", "count": 3}

async def langchain():
    from langchain_core.tools import tool
    @tool
    async def nothing(text: str, count: int) -> dict:
        """Does nothing."""
        return {"done": True}
    return lambda: nothing.ainvoke(ARGUMENTS)

async def langchain_function():
    from langchain_core.tools import tool
    @tool
    def nothing(text: str, count: int) -> dict:
        """Does nothing."""
        return {"done": True}
    return lambda: nothing.ainvoke(ARGUMENTS)

async def fastmcp():
    from fastmcp import Client, FastMCP
    server = FastMCP("bench")
    @server.tool
    async def nothing(text: str, count: int) -> dict:
        """Does nothing."""
        return {"done": True}
    client = Client(server)
    await client.__aenter__()
    return lambda: client.call_tool("nothing", ARGUMENTS)

async def pydantic_ai():
    from pydantic_ai import Agent
    from pydantic_ai.models.test import TestModel
    agent = Agent(TestModel(), defer_model_check=True)
    @agent.tool_plain
    async def nothing(text: str, count: int) -> dict:
        """Does nothing."""
        return {"done": True}
    return lambda: agent.run("x")

async def main():
    works = {}
    for make in (langchain, langchain_function, fastmcp, pydantic_ai):
        try:
            work = await make()
            for _ in range(50):
                await work()
        except Exception as error:
            print(f"{make.__name__}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        works[make.__name__] = work
    print(" ".join(works), flush=True)
    for asked in sys.stdin:
        name, times = asked.split()
        times = int(times)
        began, busy = time.perf_counter(), time.process_time()
        for _ in range(times):
            await works[name]()
        print((time.perf_counter() - began) / times, (time.process_time() - busy) / times, flush=True)

asyncio.run(main())
'''


class Peers:
    """What others offer, in a process of an interpreter that has them. Asked in turns with everything else."""

    def __init__(self, interpreter: str) -> None:
        self._process = subprocess.Popen(
            [interpreter, "-c", PEERS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.names = self._line().split()

    def cost(self, name: str) -> Cost:
        assert self._process.stdin is not None
        print(name, CALLS if name.startswith("langchain") else 5, file=self._process.stdin, flush=True)
        waited, busy = self._line().split()
        return float(waited), float(busy)

    def close(self) -> None:
        self._process.communicate()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


def home_in(folder: str) -> str:
    """A state folder whose budgets are in nobody's way."""
    home = os.path.join(folder, "home")
    os.makedirs(home, mode=0o700)
    with open(os.path.join(home, "metier.toml"), "w", encoding="utf-8") as file:
        for name in ("principal", "tool"):
            file.write(f"[budgets.{name}]\ncalls = {UNLIMITED}\nseconds = 60\n")
    os.chmod(os.path.join(home, "metier.toml"), 0o600)
    return home


async def measured(folder: str, peers: Peers) -> dict[str, list[Cost]]:
    home = home_in(folder)
    bare, bare_normal = pairs(folder, "FULL"), pairs(folder, "NORMAL")
    found: dict[str, list[Cost]] = {}
    async with Runtime.open(home=home, project=folder, watch=False) as runtime:
        house, ruled = house_of(runtime), house_of(runtime, rules=many_rules())
        normal = house_of(
            runtime
        )  # with a writer of its own: what one learns of the disk is no use to the other
        slow = house_of(runtime, pause=lambda: time.sleep(0.001))
        steps: dict[str, Callable[[], Awaitable[Cost]]] = {
            "pair": lambda: timed(_sync(bare), CALLS),
            "pipeline": lambda: timed(lambda: one(runtime, house), CALLS),
            "pipeline_rules_1000": lambda: timed(lambda: one(runtime, ruled), CALLS),
            "at_once": lambda: at_once(runtime, house, 2),
            "slow": lambda: timed(lambda: one(runtime, slow), CALLS // 10),
            "slow_at_once": lambda: at_once(runtime, slow, 1),
        }
        # Warm: the write-ahead file has its size, and what is imported late is imported.
        for step in steps.values():
            await step()
        for _ in range(ROUNDS):
            for name, step in steps.items():
                found.setdefault(name, []).append(await step())
            synchronous(runtime, "NORMAL")
            found.setdefault("pair_normal", []).append(await timed(_sync(bare_normal), CALLS))
            found.setdefault("pipeline_normal", []).append(await timed(lambda: one(runtime, normal), CALLS))
            synchronous(runtime, "FULL")
            for name in peers.names:
                found.setdefault(name, []).append(peers.cost(name))
    return found


def _sync(work: Callable[[], None]) -> Callable[[], Awaitable[None]]:
    async def done() -> None:
        work()

    return done


def figures(median: dict[str, float]) -> dict[str, float]:
    """The ratios that are promised."""
    made = {
        "pipeline_over_pair": median["pipeline"] / median["pair"],
        "concurrency_gain": median["pipeline"] / median["at_once"],
        "concurrency_gain_slow_disk": median["slow"] / median["slow_at_once"],
        "rules_1000_over_none": median["pipeline_rules_1000"] / median["pipeline"],
    }
    for name in ("langchain", "langchain_function"):
        if name in median:
            made[f"pipeline_normal_over_{name}"] = median["pipeline_normal"] / median[name]
    return made


def lines(median: dict[str, float], busy: dict[str, float]) -> Iterator[str]:
    for name, seconds in median.items():
        yield f"{name:24} {seconds * 1000:8.3f} ms, of the processor {busy[name] * 1000:8.3f} ms"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print one JSON object of ratios")
    parser.add_argument("--peers", metavar="PYTHON", default=sys.executable)
    given = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="metier-bench-")
    peers = Peers(given.peers)
    try:
        found = anyio.run(measured, folder, peers)
    finally:
        peers.close()
        shutil.rmtree(folder, ignore_errors=True)
    median = {name: statistics.median(waited for waited, _ in costs) for name, costs in found.items()}
    busy = {name: statistics.median(busy for _, busy in costs) for name, costs in found.items()}
    ratios = figures(median)
    if given.json:
        print(json.dumps({name: round(value, 3) for name, value in ratios.items()}))
        return
    print("\n".join(lines(median, busy)))
    for name, value in figures(busy).items():
        print(f"{name:40} {ratios[name]:6.2f}, of the processor {value:6.2f}")


if __name__ == "__main__":
    main()
