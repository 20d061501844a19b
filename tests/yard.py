"""A machine with one skill, one tool and every door to it. What runs is only counted, by a sandbox of the test's own."""

import json
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import anyio
import httpx2
import pytest
from click.testing import CliRunner
from msgspec import structs

import metier.pipeline
import metier.runtime
from boxes import Box
from machine import Machine, write_skill
from metier.blocking import SyncRuntime
from metier.catalog.bundle import BundleStore
from metier.catalog.here import owner
from metier.catalog.hold import bind, declared_by, hold
from metier.config import mcp
from metier.config.settings import Settings
from metier.doors.cli import metier as command
from metier.hooks import run_hook
from metier.hooks.happening import Fired
from metier.hooks.installed import Hook
from metier.kernel import firing, schedule, schedule_store, trigger, trigger_store
from metier.kernel.behalf import Behalf
from metier.kernel.trigger_match import Occasion
from metier.model.approval import Approval
from metier.model.call import Cause, Principal
from metier.model.entry import InlineCode
from metier.model.job import Job, Report
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.model.role import ROLES, Registered
from metier.model.skill import Tool
from metier.record.audit import AuditLog
from metier.record.chain import Record
from metier.record.database import Database
from metier.record.deciding import Decider, decide
from metier.record.principals import add_principal
from metier.record.tokens import RIGHTS, Made, add_token
from metier.record.trust import TrustStore
from metier.record.verify import Verification, verify
from metier.runtime import Runtime, living, probing, sandboxes, state
from metier.runtime.as_owner import call_as_owner, operate
from metier.runtime.engine import opened as opened_engine
from metier.runtime.kernel_parts import Parts
from metier.runtime.own import OwnRun, run_own
from metier.runtime.taking_up import take_up

POUR = Tool(
    name="pour",
    description="Pours.",
    parameters={
        "type": "object",
        "properties": {"name": {"type": "string"}, "note": {"type": "string"}},
        "required": ["name"],
        "additionalProperties": False,
    },
    subject="name",
    effect="act",
    risk="low",
    minimum_trust="supervised_auto",
    entry=InlineCode(language="python", source="result = 1"),
)
HOOK = "hooks/handler.ts"
EVENT: dict[str, Any] = {
    "type": "agent",
    "action": "bootstrap",
    "sessionKey": "s-1",
    "context": {"bootstrapFiles": []},
}
OWN = "print('tea')\n"
ANN = "human:ann"
"""Somebody beside the owner: she set up what fires by itself, and enabled the skill. Of him nobody takes anything away."""
FIRED = ("agent:trigger/t1", "agent:schedule/s1", "agent:host")
"""Who makes calls with nobody there."""


class Ended(NamedTuple):
    """How a call ended, whichever door told it."""

    how: str
    """`ran`, `refused` or `pending`."""
    code: str = ""
    said: str = ""


class Yard:
    """Everything below one temporary folder. Gates are closed and opened by what operators do."""

    def __init__(self, top: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.machine = Machine(top)
        self.patch = monkeypatch
        self.box = Box(report=self._report)
        self.tool = POUR
        self.arguments: dict[str, Any] = {"name": "tea"}
        self.event = EVENT
        self.hook_by = Principal(id=owner(), kind="human")
        self.hook_workspace = ""
        self.run_options: tuple[str, ...] = ()
        self.own = OwnRun(name="own.py", data=OWN.encode(), entry=InlineCode(language="python", source=OWN))
        self.while_asked: Callable[[], object] = lambda: None
        self.meanwhile: Callable[[], object] = lambda: None
        """Done by somebody else after the call was judged and before it begins."""
        for name in ("kettle", "sh"):
            self.machine.program(name)
        hook = self.machine.skills / "tea" / HOOK
        hook.parent.mkdir(parents=True)
        hook.write_text("export default async () => {}\n", encoding="utf-8")
        (self.machine.state / "workspace").mkdir(exist_ok=True)
        (self.machine.project / "own.py").write_text(OWN, encoding="utf-8")
        monkeypatch.setenv("HOME", str(self.machine.home))
        monkeypatch.setenv("PATH", str(self.machine.bin))
        monkeypatch.delenv("METIER_HOME", raising=False)
        monkeypatch.chdir(self.machine.project)
        monkeypatch.setattr(
            sandboxes, "make_sandboxes", lambda settings, tasks=None, watch=None: ((self.box,), ())
        )
        self.path = self.machine.settings().database
        with self.opened() as database:
            ann = Registered(id=ANN, kind="human", roles=frozenset({"operator"}))
            assert add_principal(database, ann, by=owner(), owner=owner()) == ""
        self.written()
        real = metier.pipeline.prepare

        async def prepare(*given: Any) -> Any:
            ready = await real(*given)
            self.meanwhile()
            return ready

        monkeypatch.setattr(metier.pipeline, "prepare", prepare)

    # --- what operators do

    def opened(self) -> Database:
        """The state as another process would open it."""
        return Database.open(self.path)

    def configured(self, text: str) -> None:
        (self.machine.state / "metier.toml").write_text(text, encoding="utf-8")

    def ruled(self, decision: str, because: str = "so it is") -> None:
        """Rules about everything that there is here."""
        rule = '[[rule]]\ndecision = "{}"\nbecause = "{}"\ntool = "{}"\n'
        names = ("pour", "hooks.run", "operator.run", probing.NAME, living.NAME)
        file = self.machine.state / "policy.toml"
        file.write_text("".join(rule.format(decision, because, name) for name in names), encoding="utf-8")
        file.chmod(0o600)

    def always_asked(self) -> None:
        self.tool = structs.replace(self.tool, approval="always")

    def approve(self, approval: str, *, in_its_process: bool = False) -> None:
        with self.opened() as database:
            made = decide(database, approval, by=DECIDER, decision="approve", in_its_process=in_its_process)
            assert isinstance(made, Approval), made

    def written(self, **fields: str) -> None:
        """The skill as it lies there now, which the operator looked at and trusts."""
        needs = '{"openclaw": {"requires": {"bins": ["kettle", "sh"]}}}'
        write_skill(self.machine.skills / "tea", metadata=needs, **fields)
        settings = self.machine.settings()
        with self.opened() as database:
            trust, bundles = TrustStore(database), BundleStore(settings.bundles)
            listed = self.machine.catalog().get("tea")
            assert listed is not None
            bundles.take(listed.folder, now_ns=time.time_ns())
            held = hold(listed, trust=trust, bundles=bundles, now_ns=time.time_ns())
            assert held.bytes is not None, held
            snapshot = bundles.open(held.bytes.digest)
            assert snapshot is not None
            declared = declared_by(snapshot, listed.manifest, folder=listed.folder)
            assert declared is not None
            assert bind(listed, declared, held.bytes, trust=trust, how="operator", by=owner())

    # --- what can be seen afterwards

    @property
    def ran(self) -> int:
        return len(self.box.jobs)

    def head(self) -> int:
        with self.opened() as database:
            return AuditLog(database).head()[0]

    def calls_since(self, seq: int) -> list[Record]:
        """The records of calls after record `seq`, of a log that is whole."""
        with self.opened() as database:
            assert verify(database).ok, verify(database)
            return [each for each in AuditLog(database).tail(1000) if each.seq > seq and each.call_id]

    def verified(self) -> Verification:
        return verify(self.path)

    # --- what callers do

    def with_runtime(self, act: Callable[[Runtime], Awaitable[Any]]) -> Any:
        """Do something with a runtime that is opened for it, as a program that was started just now would."""
        self._show_tool()

        async def main() -> Any:
            async with Runtime.open(project=str(self.machine.project), watch=False) as runtime:
                return await act(runtime)

        return anyio.run(main)

    def with_blocking(self, act: Callable[[SyncRuntime], Any]) -> Any:
        self._show_tool()
        with SyncRuntime.open(project=str(self.machine.project), watch=False) as runtime:
            return act(runtime)

    def command(self, *args: str) -> Ended:
        """A command line, in this process."""
        self._show_tool()
        done = CliRunner().invoke(command, [*args, "--json"])
        assert "Traceback" not in done.output, done.output
        assert done.exit_code in (0, 1, 3, 4), (done.exit_code, done.output, done.exception)
        return ended(json.loads(done.stdout))

    def queued(self) -> Pending:
        """A call that waits for somebody's word."""
        self.always_asked()
        outcome = self.with_runtime(lambda runtime: runtime.call(self.tool.name, self.arguments))
        assert isinstance(outcome, Pending), outcome
        return outcome

    def approved(self) -> Pending:
        """A call that somebody approved and nobody ran yet."""
        pending = self.queued()
        self.approve(pending.approval_id)
        return pending

    def hook(self) -> Ended:
        async def fire(runtime: Runtime) -> Outcome:
            return await run_hook(
                runtime._engine.house(),
                skill="tea",
                hook=HOOK,
                event=self.event,
                principal=self.hook_by,
                workspace=self.hook_workspace,
            )

        return ended(self.with_runtime(fire))

    def hook_fired(self) -> Ended:
        """Something happens that the hook is told of: nobody called it."""
        hook = Hook(skill="tea", file=HOOK)
        fired = Fired(name="agent:bootstrap", event=self.event)
        return ended(self.with_runtime(lambda runtime: runtime._engine.hooks.ask(hook, fired)))

    def fired_by_trigger(self) -> Ended:
        """A message comes in, and sets off the trigger that Ann set up."""
        outcomes: list[Outcome] = []
        real = firing.bounded_call

        async def bounded_call(*given: Any, **named: Any) -> Outcome:
            outcomes.append(await real(*given, **named))
            return outcomes[-1]

        self.patch.setattr(firing, "bounded_call", bounded_call)
        told: dict[str, Any] = {"type": "message", "name": "tea time", "patterns": ["tea"]}
        made = trigger.read({**told, "tool": self.tool.name, "arguments": self.arguments})

        async def fire(parts: Parts) -> None:
            since = parts.triggers._since(ANN)
            trigger_store.stored(parts.store, {"t1": made}, owner=ANN, skill="", since=since)
            [kept] = trigger_store.all_triggers(parts.store)
            came = Occasion(kind="message", name="", source="metier", counted="", around={}, text="tea")
            assert (await parts.triggers._rounds._firing.fire(kept, came)).fired

        self.with_modules(fire)
        [outcome] = outcomes
        return ended(outcome)

    def fired_by_schedule(self) -> Ended:
        """The schedule is due that Ann set up."""
        told: dict[str, Any] = {"type": "interval", "name": "tea time", "intervalMs": 60_000}
        made = schedule.read({**told, "tool": self.tool.name, "arguments": self.arguments})

        async def fire(parts: Parts) -> Outcome:
            schedule_store.stored(parts.store, {"s1": made}, owner=ANN, skill="")
            [kept] = schedule_store.all_schedules(parts.store)
            return await parts.schedules._firing.call(kept, made, time.time())

        return ended(self.with_modules(fire))

    def asked_by_host(self) -> Ended:
        """The host itself has something done, as it does with a message that came in."""
        host = Principal(id="agent:host", kind="agent", on_behalf_of=owner())
        return self._by_module(host)

    def delivered(self) -> Ended:
        """The host has a skill do something that the skill offered to do, as it does with a message that goes out."""
        return self._by_module(Principal(id="skill:tea", kind="skill", on_behalf_of=ANN))

    def _by_module(self, principal: Principal) -> Ended:
        async def call(parts: Parts) -> Outcome:
            return await parts.given.calls.call(principal, self.tool.name, self.arguments)

        return ended(self.with_modules(call))

    def with_modules(self, act: Callable[[Parts], Awaitable[Any]]) -> Any:
        """Do something with the modules of a runtime, as its own background tasks do."""

        async def acted(runtime: Runtime) -> Any:
            parts = (await runtime._engine.kernel._made()).parts
            assert parts is not None
            return await act(parts)

        return self.with_runtime(acted)

    def operated(self) -> Ended:
        """The owner at the terminal has something done, as `metier settings` and `metier triggers` do."""
        self._show_tool()
        return ended(anyio.run(operate, self.machine.settings(), self.tool.name, self.arguments))

    def approved_in_chat(self, approval: str) -> Ended:
        """Somebody said yes by Telegram, and the host takes the call up."""

        async def taken_up(runtime: Runtime) -> object:
            return await take_up(
                runtime._engine.seen.settings, approval, runtime._engine.kernel._needs.take_up
            )

        return ended(self.with_runtime(taken_up))

    def tested(self) -> Ended:
        """The owner calls a tool of a skill himself."""
        return ended(
            self.with_runtime(lambda runtime: call_as_owner(runtime, self.tool.name, self.arguments))
        )

    def read_by_running(self) -> Ended:
        """The skill is run to be read, as one is that exists only as code."""
        self.patch.setattr(probing, "_tool", lambda listed: self.reader)
        outcomes: list[Outcome] = []
        real = metier.pipeline.run

        async def run(*given: Any) -> Outcome:
            outcomes.append(await real(*given))
            return outcomes[-1]

        self.patch.setattr(probing, "run", run)

        async def read(runtime: Runtime) -> None:
            listed = runtime._engine.house().catalog.get("tea")
            assert listed is not None
            await probing.probe([listed], runtime._engine.house(), runtime._engine.state.bundles)

        self.with_runtime(read)
        [outcome] = outcomes
        return ended(outcome)

    @property
    def reader(self) -> Tool:
        """What the gate judges when the skill is read: what the yard's tool is, under the name and schema of reading."""
        return structs.replace(
            self.tool, name=probing.NAME, parameters=probing._PARAMETERS, audience="operator", subject="skill"
        )

    def lived(self) -> Ended:
        """The skill lives, as one does that somebody enabled."""
        tool = structs.replace(
            self.tool, name=living.NAME, parameters=living._PARAMETERS, audience="operator", subject="skill"
        )
        self.patch.setattr(living, "_tool", lambda listed: tool)

        async def live(runtime: Runtime) -> Outcome:
            parts = (await runtime._engine.kernel._made()).parts
            assert parts is not None
            return await parts.given.live.live(self._resident(runtime, owner()))

        return ended(self.with_runtime(live))

    def asked_by_life(self) -> Ended:
        """The skill lives, Ann enabled it, and its code asks for something."""

        async def asked(runtime: Runtime) -> Outcome:
            enabled = Principal(id=ANN, kind="human")
            life = structs.replace(runtime._call(living.NAME, {"skill": "tea"}), principal=enabled)
            with runtime._engine.inner.under(life):
                asks = living._Life(self._resident(runtime, ANN), life, runtime._engine.inner)
                return await asks.call(self.tool.name, self.arguments, "")

        return ended(self.with_runtime(asked))

    def _resident(self, runtime: Runtime, by: str) -> Any:
        skill = runtime.catalog.by_name["tea"].skill
        return SimpleNamespace(
            skill=skill,
            by=Behalf(by),
            call_id="",
            digest="",
            depth_in=lambda _: 1,
            cause_in=lambda _: Cause(),
        )

    def inside(self) -> Ended:
        """The skill's code makes the call, inside of one that an agent made and that runs."""

        async def operate(runtime: Runtime) -> Outcome:
            outer = runtime._call(self.tool.name, self.arguments)
            with runtime._engine.inner.under(outer):
                return await runtime._engine.inner.call(outer.id, "tea", self.tool.name, self.arguments)

        return ended(self.with_runtime(operate))

    # --- over HTTP

    def token(self, principal: str = "agent:library") -> str:
        """A token of somebody's, with everything that he may do."""
        with self.opened() as database:
            made = add_token(
                database,
                principal=principal,
                name="yard",
                scopes=RIGHTS,
                expires_at=time.time() + 3_600,
                by=owner(),
                owner=owner(),
            )
        assert isinstance(made, Made), made
        return made.text

    def with_server(self, act: Callable[["Served"], Awaitable[Any]], *, mcp: bool = False) -> Any:
        """Do something with a server that is started for it, on a socket of this machine."""
        from metier.doors.http.opening import open_door

        self._show_tool()

        async def main() -> Any:
            async with (
                opened_engine(lambda: self.machine.settings(), watch=False) as engine,
                open_door(engine, port=0, mcp=mcp) as door,
            ):
                return await act(Served(door.url))

        return anyio.run(main)

    def over_http(self, token: str) -> Ended:
        asked = {"tool": self.tool.name, "arguments": self.arguments}
        return self.with_server(lambda served: served.ended(token, "/api/v1/calls", asked))

    def handled_over_http(self, token: str) -> Ended:
        asked = {"tool_calls": self.as_a_provider_writes_it()}
        return self.with_server(lambda served: served.ended(token, "/api/v1/handle", asked))

    def approved_with_token(self) -> tuple[str, str]:
        """Asked with a token, which alone takes it up, and approved."""
        token, asked = self.token(), {"tool": self.tool.name, "arguments": self.arguments}
        self.always_asked()

        async def ask(served: "Served") -> str:
            return str((await served.asked(token, "/api/v1/calls", asked))["approval_id"])

        approval = self.with_server(ask)
        self.approve(approval)
        return token, approval

    def taken_up_over_http(self, given: tuple[str, str]) -> Ended:
        token, approval = given
        return self.with_server(
            lambda served: served.ended(token, f"/api/v1/approvals/{approval}/take-up", {})
        )

    def queued_with_token(self) -> tuple[str, str]:
        return self.token(owner()), self.queued().approval_id

    def approved_over_http(self, given: tuple[str, str]) -> Ended:
        """A person approves what he is shown, and has it run."""
        token, approval = given
        path = f"/api/v1/approvals/{approval}"

        async def act(served: "Served") -> Ended:
            shown = await served.asked(token, path)
            await served.asked(token, f"{path}/approve", {"fingerprint": shown["fingerprint"]})
            return await served.ended(token, f"{path}/take-up", {})

        return self.with_server(act)

    def told_by_stream(self, given: tuple[str, str]) -> Ended:
        """A call is made over HTTP, and how it ended is what somebody is told who listens."""
        token, person = given
        asked = {"tool": self.tool.name, "arguments": self.arguments}

        async def act(served: "Served") -> Ended:
            async with served.listening(person) as told:
                made = await served.asked(token, "/api/v1/calls", asked)
                if "outcome" not in made or made.get("code") == "record_unavailable":
                    return ended(made)  # there was no call, or no record of it
                return await told(made["call_id"])

        return self.with_server(act)

    def run_and_answer(self) -> Ended:
        """The owner runs a file of his own, is asked, and says yes."""

        async def ask(settings: Settings, approval: str) -> None:
            self.while_asked()
            self.approve(approval, in_its_process=True)

        return ended(anyio.run(run_own, self.machine.settings(), self.own, ask))

    def as_a_provider_writes_it(self) -> list[dict[str, Any]]:
        function = {"name": self.tool.name, "arguments": json.dumps(self.arguments)}
        return [{"id": "c1", "type": "function", "function": function}]

    def _show_tool(self) -> None:
        for module in (metier.runtime, state):
            self.patch.setattr(module, "OWN_TOOLS", {self.tool.name: self.tool})

    async def _report(self, job: Job) -> Report:
        hook = job.context.get("hook")
        value = hook["context"] if isinstance(hook, dict) else "done"
        return Report(ending="returned", value=value)

    # --- over MCP

    def over_mcp_lines(self) -> Ended:
        """A client of the older generation at the other end of two pipes, as `metier mcp` has it."""
        from mcp import Client

        from mcp_desk import over
        from metier.doors.mcp.stdio import serve

        self._show_tool()
        self._waits_for_nobody()
        agent = Principal(id="agent:mcp", kind="agent", on_behalf_of=owner())
        (theirs, out), (back, ours) = os.pipe(), os.pipe()

        async def main() -> Any:
            async with anyio.create_task_group() as tasks:

                async def run() -> None:
                    with os.fdopen(theirs, "rb", 0) as source, os.fdopen(ours, "wb") as sink:
                        await serve(self.machine.settings, agent, source, sink)

                tasks.start_soon(run)
                with os.fdopen(out, "wb", 0) as to_server, os.fdopen(back, "rb") as from_server:
                    async with Client(over(to_server, from_server), mode="legacy", cache=None) as client:
                        return await client.call_tool(self.tool.name, self.arguments)

        return ended_mcp(anyio.run(main).content[0].text)

    def over_mcp_http(self, token: str) -> Ended:
        """One request of the newer generation."""
        self._waits_for_nobody()
        version, name = "2026-07-28", self.tool.name
        about = {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        params = {"name": name, "arguments": self.arguments, "_meta": about}
        asked = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {
            "accept": "application/json, text/event-stream",
            "content-type": "application/json",
            "mcp-protocol-version": version,
            "mcp-method": "tools/call",
            "mcp-name": name,
        }

        async def act(served: "Served") -> Ended:
            async with served.client(token) as client:
                answer = await client.post("/mcp", content=json.dumps(asked), headers=headers)
            told = answer.json()
            return ended_mcp(told["result"]["content"][0]["text"]) if "result" in told else ended(told)

        return self.with_server(act, mcp=True)

    def _waits_for_nobody(self) -> None:
        """What has to be decided is told at once, and not held a while."""
        self.patch.setattr(mcp, "checked", lambda written: structs.replace(written, wait_seconds=0.0))


class Served:
    """A server, for who speaks HTTP to it."""

    def __init__(self, url: str) -> None:
        self.url = url

    def client(self, token: str) -> httpx2.AsyncClient:
        headers = {"authorization": f"Bearer {token}"}
        return httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=20, trust_env=False)

    async def asked(self, token: str, path: str, body: Any = None) -> Any:
        async with self.client(token) as client:
            sent = json.dumps(body) if body is not None else ""
            kind = {"content-type": "application/json"}
            answer = await (
                client.post(path, content=sent, headers=kind) if body is not None else client.get(path)
            )
            assert answer.status_code < 500, answer.text
            return answer.json()

    async def ended(self, token: str, path: str, body: Any) -> Ended:
        answer = await self.asked(token, path, body)
        return answered(answer["messages"]) if "messages" in answer else ended(answer)

    @asynccontextmanager
    async def listening(self, token: str) -> AsyncGenerator[Callable[[str], Awaitable[Ended]]]:
        got: list[dict[str, Any]] = []
        ready = anyio.Event()

        async def read() -> None:
            async with self.client(token) as client, client.stream("GET", "/api/v1/events") as answer:
                async for line in answer.aiter_lines():
                    ready.set()
                    if line.startswith("data: "):
                        got.append(json.loads(line[6:]))

        async def told(call_id: str) -> Ended:
            kinds = {"call.ended": "ran", "call.refused": "refused", "approval.pending": "pending"}
            with anyio.fail_after(10):
                while True:
                    for each in got:
                        if each.get("call_id") == call_id and each["kind"] in kinds:
                            return Ended(kinds[each["kind"]], each.get("code", ""), str(each))
                    await anyio.sleep(0.02)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            with anyio.fail_after(10):
                await ready.wait()
            yield told
            tasks.cancel_scope.cancel()


DECIDER = Decider(id=owner(), kind="human", rights=ROLES["owner"])


def ended(outcome: Any) -> Ended:
    """How a call ended, from an outcome, or from what a door printed."""
    match outcome:
        case Completed() | {"outcome": "completed"}:
            return Ended("ran")
        case Failed(code=code) | {"outcome": "failed", "code": code}:
            return Ended("ran", code, str(outcome))
        case Refused(code=code) | {"outcome": "refused", "code": code}:
            return Ended("refused", code, str(outcome))
        case Pending() | {"outcome": "pending"} | {"error": "pending_approval"}:
            return Ended("pending", "", str(outcome))
        case {"status": 401, "code": code}:
            return Ended("refused", code, str(outcome))
        case {"error": code}:
            return Ended("refused", code, str(outcome))
        case "done":
            return Ended("ran")
        case _:
            raise AssertionError(f"no end of a call: {outcome!r}")


def ended_mcp(text: str) -> Ended:
    return ended(json.loads(text) if text.startswith("{") else text)


def answered(messages: list[dict[str, Any]]) -> Ended:
    """How the one call ended that a provider's message answers."""
    [message] = messages
    text = message["content"]
    return ended(json.loads(text) if text.startswith("{") else text)


def away(path: str) -> None:
    """The database is taken away from under who has it open."""
    os.rename(path, f"{path}.away")


def back(path: str) -> None:
    os.rename(f"{path}.away", path)
