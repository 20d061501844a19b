"""Every door leads through every gate, and each gate holds something that nothing else would.

A door is whatever leads to `pipeline.run`; a test lists who does, so that a new one is added here or this goes red. A gate
is a layer of `authorize`, a limit of `validate`, the desk, a term of the intent, or the record itself. Then each guard is
taken out in turn, and the very check that passed before has to fail.
"""

import ast
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

import anyio
import pytest
from msgspec import structs

import metier
import metier.pipeline
from metier.catalog.here import owner
from metier.gate import authorize
from metier.gate.approve import ApprovedCall
from metier.gate.confirmation import question
from metier.gate.terms import Allowed, Confirmed, Decided, Granted, Within
from metier.model.call import AuthorizedCall, Call, Principal, Surroundings
from metier.model.outcome import Completed, Outcome, Refused
from metier.model.permission import PermissionSet
from metier.pipeline import run
from metier.record.approvals import find
from metier.record.audit import Intent
from metier.record.budgets import Scope, moment, take_budget
from metier.record.chain import Act
from metier.record.deciding import decide, revoke_approval
from metier.record.disabling import disable
from metier.record.level import set_level
from metier.record.principals import revoke_principal
from metier.record.recorder import Recorder
from metier.record.standing import proposed_grant, revoke
from metier.record.stop import stop
from metier.record.trust import TrustStore
from metier.runtime import Runtime
from yard import ANN, DECIDER, FIRED, Ended, Yard, answered, away, back, ended

SOURCE = Path(metier.__file__).parent
AGENTS: Final = ("agent:cli", "agent:library", "agent:mcp")
OF_CALLS: Final = (
    "skill_execution_blocked",
    "skill_approval_queued",
    "skill_execution_started",
    "skill_executed",
    "skill_execution_error",
)
"""What happens to a call; that somebody decided about it is another matter."""


@pytest.fixture
def yard(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Yard:
    return Yard(tmp_path, monkeypatch)


# --- the doors


class Door(NamedTuple):
    """One way in. `begin` is done while every gate is open; what it gives is handed to `go`."""

    name: str
    kind: str
    """`agent`, `token` (an agent's, over the network, who is not even let in once it is revoked), `resumed` (an agent's, with somebody's
    word), `resumed token` (both), `owner`, `answered` (the owner, who is asked), `hook`, `hook fired` (nobody
    asked for it), `tester` (the owner, who calls a skill's tool), `reader` (the owner, for whom a skill is run to be read), `life` (the
    owner, for whom a skill lives), `fired` (by itself, for whoever set it up) or `inside` (a skill's code, on behalf of an agent, or of
    whoever enabled it)."""
    go: Callable[[Yard, Any], Ended]
    begin: Callable[[Yard], Any] = lambda yard: None


def _wait(yard: Yard, pending: Any) -> Ended:
    return ended(yard.with_runtime(lambda runtime: runtime.wait_for(pending, 5.0)))


def _wait_blocking(yard: Yard, pending: Any) -> Ended:
    return ended(yard.with_blocking(lambda runtime: runtime.wait_for(pending, 5.0)))


def _call_here(yard: Yard, _: Any) -> Ended:
    return yard.command("call", yard.tool.name, json.dumps(yard.arguments))


DOORS: Final = (
    Door("metier call", "agent", _call_here),
    Door(
        "Runtime.call",
        "agent",
        lambda yard, _: ended(
            yard.with_runtime(lambda runtime: runtime.call(yard.tool.name, yard.arguments))
        ),
    ),
    Door(
        "Runtime.handle",
        "agent",
        lambda yard, _: answered(
            yard.with_runtime(lambda runtime: runtime.handle(yard.as_a_provider_writes_it()))
        ),
    ),
    Door(
        "SyncRuntime.call",
        "agent",
        lambda yard, _: ended(
            yard.with_blocking(lambda runtime: runtime.call(yard.tool.name, yard.arguments))
        ),
    ),
    Door(
        "SyncRuntime.handle",
        "agent",
        lambda yard, _: answered(
            yard.with_blocking(lambda runtime: runtime.handle(yard.as_a_provider_writes_it()))
        ),
    ),
    Door(
        "Runtime.resume",
        "resumed",
        lambda yard, made: ended(yard.with_runtime(lambda runtime: runtime.resume(made.approval_id))),
        Yard.approved,
    ),
    Door("Runtime.wait_for", "resumed", _wait, Yard.approved),
    Door(
        "SyncRuntime.resume",
        "resumed",
        lambda yard, made: ended(yard.with_blocking(lambda runtime: runtime.resume(made.approval_id))),
        Yard.approved,
    ),
    Door("SyncRuntime.wait_for", "resumed", _wait_blocking, Yard.approved),
    Door(
        "metier approvals approve",
        "resumed",
        lambda yard, made: yard.command("approvals", "approve", made.approval_id),
        Yard.queued,
    ),
    Door("metier run", "owner", lambda yard, _: yard.command("run", "own.py", *yard.run_options)),
    Door(
        "metier run, asked and answered",
        "answered",
        lambda yard, _: yard.run_and_answer(),
        lambda yard: yard.ruled("ask"),
    ),
    Door("run_hook", "hook", lambda yard, _: yard.hook()),
    Door("a hook that is fired", "hook fired", lambda yard, _: yard.hook_fired()),
    Door("metier skills test", "tester", lambda yard, _: yard.tested()),
    Door("an operation of the owner's", "tester", lambda yard, _: yard.operated()),
    Door("a skill that is run to be read", "reader", lambda yard, _: yard.read_by_running()),
    Door("a skill that lives", "life", lambda yard, _: yard.lived()),
    Door("context.operate", "inside", lambda yard, _: yard.inside()),
    Door("what a skill asks that lives", "inside", lambda yard, _: yard.asked_by_life()),
    Door("a trigger", "fired", lambda yard, _: yard.fired_by_trigger()),
    Door("a schedule", "fired", lambda yard, _: yard.fired_by_schedule()),
    Door("the host", "fired", lambda yard, _: yard.asked_by_host()),
    Door("a skill that is to deliver", "fired", lambda yard, _: yard.delivered()),
    Door(
        "approved by Telegram",
        "resumed",
        lambda yard, made: yard.approved_in_chat(made.approval_id),
        Yard.approved,
    ),
    Door("MCP stdio", "agent", lambda yard, _: yard.over_mcp_lines()),
    Door("MCP HTTP", "token", Yard.over_mcp_http, Yard.token),
    Door("HTTP, a call", "token", Yard.over_http, Yard.token),
    Door("HTTP, a provider's tool calls", "token", Yard.handled_over_http, Yard.token),
    Door(
        "SSE, a call as it is told",
        "token",
        Yard.told_by_stream,
        lambda yard: (yard.token(), yard.token(owner())),
    ),
    Door("HTTP, taken up", "resumed token", Yard.taken_up_over_http, Yard.approved_with_token),
    Door("HTTP, approved", "resumed", Yard.approved_over_http, Yard.queued_with_token),
)
"""What another process asks of the host is no door: it is done for a call that was judged and begun there, and the host looks for
that in the record (tests/kernel/test_host_forwarded.py, tests/kernel/test_host_line.py)."""
BY_NAME: Final = {door.name: door for door in DOORS}
CALL: Final = BY_NAME["Runtime.call"]

# Each name, and every place in the code that uses it: from the pipeline outwards to what people and programs can reach.
WAYS: Final[dict[str, set[str]]] = {
    "metier.pipeline.run": {
        "hooks.run.run_hook",
        "runtime.engine.Engine._judge",
        "runtime.own._guarded",
        "runtime.probing._ran",
        "runtime.living.Living.live",
    },
    "runtime.engine.Engine._judge": {"runtime.engine.Engine.run"},
    "runtime.engine.Engine.run": {"runtime.engine.Engine.__init__", "runtime.engine.Engine.resume"},
    "runtime.engine.Engine.resume": {"runtime.engine.Engine.__init__"},
    "runtime.Runtime._engine.run": {"runtime.Runtime.call", "runtime.Runtime.handle"},
    "runtime.Runtime._engine.resume": {"runtime.Runtime.resume"},
    "runtime.Runtime.resume": {"runtime.Runtime.wait_for"},
    "runtime.Runtime.wait_for": {"runtime.Runtime.call", "runtime.Runtime.handle"},
    "blocking.SyncRuntime._runtime.call": {"blocking.SyncRuntime.call"},
    "blocking.SyncRuntime._runtime.handle": {"blocking.SyncRuntime.handle"},
    "blocking.SyncRuntime._runtime.resume": {"blocking.SyncRuntime.resume"},
    "blocking.SyncRuntime._runtime.wait_for": {"blocking.SyncRuntime.wait_for"},
    "runtime.call": {"runtime.written.call_written"},
    "runtime._engine.run": {"runtime.as_owner.call_as_owner", "runtime.written.call_written"},
    "metier.runtime.written.call_written": {"doors.cli.call._call"},
    "runtime.handle": set(),
    "runtime.wait_for": {
        "doors.cli.call._call",
        "doors.mcp.calls.Calls._pending",
        "runtime.once.call_once",
    },
    # Over MCP: who asks is whom the connection was authenticated as.
    "metier.doors.mcp.calls.Calls": {"doors.mcp.server.McpServer.__init__"},
    "doors.mcp.calls.Calls._engine.run": {"doors.mcp.calls.Calls._confirmed", "doors.mcp.calls.Calls._run"},
    "doors.mcp.calls.Calls._engine.resume": {"doors.mcp.calls.Calls._decided"},
    "metier.doors.mcp.skill_files.asked": {"doors.mcp.prompts.Prompts.get"},
    "doors.mcp.skill_files.asked": {"doors.mcp.skill_files.snapshot_of"},
    # Over HTTP: who asks is who the gatekeeper let in, and `Serving.runtime` is what he is given.
    "metier.runtime.once.call_once": {"doors.http.as_agent.made_as_agent", "doors.http.making.made"},
    "metier.doors.http.making.made": {
        "doors.http.calls._make",
        "doors.http.modules._operate",
        "doors.http.settings._read",
        "doors.http.settings._reset",
        "doors.http.settings._write",
    },
    "doors.http.endpoint.Asking.serving.runtime": {"doors.http.endpoint.Asking.runtime"},
    "asking.runtime.handle": {"doors.http.calls._handle"},
    "asking.runtime.resume": {"doors.http.making.decided"},
    "asking.runtime.wait_for": {"doors.http.making.decided", "doors.http.making.made"},
    "doors.http.making.decided": {"doors.http.making.made"},
    "metier.doors.http.making.decided": {"doors.http.approvals._take_up"},
    "engine.resume": {"doors.http.approvals._take_up"},
    "engine.run": {"doors.mcp.skill_files.asked", "runtime.once.call_once"},
    "metier.runtime.taking_up.take_up": {
        "doors.http.approvals._take_up",
        "doors.telegram.taking_up.TakingUp._ended",
    },
    "runtime._engine.resume": {"runtime.resume.resume"},
    "runtime.resume": set(),
    "metier.runtime.resume.resume": {"doors.cli.approvals._take_up", "runtime.taking_up.take_up"},
    "runtime.own._guarded": {"runtime.own._answered", "runtime.own.run_own"},
    "runtime.own._answered": {"runtime.own.run_own"},
    "metier.runtime.own.run_own": {"doors.cli.run.run_command"},
    "metier.hooks.run.run_hook": {"hooks.firing.Hooks.ask"},
    "hooks.firing.Hooks.ask": {"hooks.firing.Hooks._observed", "hooks.firing.Hooks.bootstrap"},
    "hooks.firing._AroundTools._hooks.ask": {"hooks.firing._AroundTools._word"},
    "metier.runtime.as_owner.call_as_owner": {"doors.cli.tried._run"},
    "runtime.as_owner.call_as_owner": {"runtime.as_owner.operate"},
    "metier.runtime.as_owner.operate": {
        "doors.cli.by_itself.asked",
        "doors.cli.channels.remove_command",
        "doors.cli.conversations._operate",
        "doors.cli.living._each",
        "doors.cli.living.living_command",
        "doors.cli.mcp_import._moved",
        "doors.cli.operate.operate_command",
        "doors.cli.secrets._operate",
        "doors.cli.settings._operate",
    },
    "metier.runtime.probing.probe": {"runtime.engine.Engine.read_code"},
    # For a person who looks at the tools of an MCP server, at the terminal or by `skills.review`.
    "metier.runtime.probing.ask": {"runtime.ask_server", "runtime.operators.asked_server"},
    # Calls inside of calls: all of them are made with the `_run` that `Inner` is given.
    "metier.runtime.inner.Inner": {
        "runtime.engine.Engine.__init__",
        "runtime.agents.Agents.__init__",
        "runtime.housing.Housing",
        "runtime.kernel_here.Calling.__init__",
        "runtime.kernel_here.Needs",
        "runtime.living.Living.__init__",
        "runtime.living._Life.__init__",
        "runtime.modules.Modules.__init__",
    },
    "runtime.inner.Inner._run": {
        "runtime.inner.Inner.call",
        "runtime.inner.Inner.run",
        "runtime.inner.Inner.start",
    },
    "runtime.living._Life._inner.run": {"runtime.living._Life.call"},
    "host.living.Execute._resident.call": {"host.living.Execute.answer"},
    "runtime.agents.Agents._inner.start": {"runtime.agents.Agents._started"},
    "runtime.agents.Agents._inner.run": {"runtime.agents.Agents._talked"},
    # What the kernel has done: lives, calls of modules, and what was approved by Telegram.
    "metier.runtime.kernel_here.KernelHere": {"runtime.engine.Engine.__init__", "runtime.housing.Housing"},
    "needs.run": {"runtime.kernel_here.KernelHere._made"},
    "needs.take_up": {"runtime.kernel_here.KernelHere._made"},
    "metier.runtime.living.Living": {"runtime.kernel_here.KernelHere._made"},
    "given.live": {"runtime.kernel_parts.Parts.__init__"},
    "kernel.resident_keeper.Keeper._live.live": {"kernel.resident_keeper.Keeper._begun"},
    "runtime.kernel_here.Calling": {"runtime.kernel_here.KernelHere._made"},
    "runtime.kernel_here.Calling._run": {"runtime.kernel_here.Calling.call"},
    "calls.call": {"kernel.firing_call.bounded_call"},
    "metier.kernel.firing_call.bounded_call": {
        "kernel.firing.Firing._do",
        "kernel.schedule_firing.ScheduleFiring.call",
        "kernel.schedule_notice.Teller._call",
    },
    "kernel.delivery_skill.SkillConnector._calls.call": {"kernel.delivery_skill.SkillConnector.send"},
    "kernel.skills.Skills._calls().call": {"kernel.skills.Skills._call"},
    "doors.telegram.inbound.Inbound._calls.call": {
        "doors.telegram.inbound.Inbound._note",
        "doors.telegram.inbound.Inbound._route",
    },
    "given.take_up": {"doors.cli.host.telegram"},
    "metier.doors.telegram.taking_up.TakingUp": {"doors.telegram.door.Telegram.__init__"},
    "doors.telegram.taking_up.TakingUp._here": {"doors.telegram.taking_up.TakingUp._ended"},
    "metier.runtime.hosting_here": {"doors.cli.host._run"},
}


def dotted(node: ast.expr) -> str:
    """`a.b().c`, as it is written; empty for what is no such chain of names."""
    match node:
        case ast.Name(id=name):
            return name
        case ast.Attribute(value=value, attr=name):
            return f"{before}.{name}" if (before := dotted(value)) else ""
        case ast.Call(func=func, args=[], keywords=[]):
            return f"{before}()" if (before := dotted(func)) else ""
        case _:
            return ""


def used_in(path: Path) -> list[tuple[str, str]]:
    """Every dotted name that is used in a file, by the place; what was imported, or is made there, has its full name."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    module = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
    imported: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            for alias in node.names:
                imported[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            imported[node.name] = f"{module}.{node.name}"
    found: list[tuple[str, str]] = []

    def walk(node: ast.AST, place: str, owner: str, deep: bool) -> None:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and not deep:
                inside = f"{place}.{child.name}"
                is_class = isinstance(child, ast.ClassDef)
                walk(child, inside, inside if is_class else owner, deep=not is_class)
                continue
            if isinstance(child, ast.Name | ast.Attribute) and isinstance(child.ctx, ast.Load):
                name = dotted(child)
                name = f"{owner}.{name[5:]}" if name.startswith("self.") else name
                found.append((imported.get(name, name), place))
            walk(child, place, owner, deep)

    walk(tree, module, "", deep=False)
    return found


def test_these_are_all_the_doors_there_are() -> None:
    found: dict[str, set[str]] = {name: set() for name in WAYS}
    for path in sorted(SOURCE.rglob("*.py")):
        for name, place in used_in(path):
            if name in found:
                found[name].add(place)
    # A new way in belongs into DOORS, with everything that follows below.
    assert found == WAYS
    importers = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if "metier.pipeline" in path.read_text(encoding="utf-8")
        or "from metier import pipeline" in path.read_text()
    }
    assert importers == {
        "hooks/firing.py",
        "hooks/run.py",
        "runtime/engine.py",
        "runtime/housing.py",
        "runtime/kernel_here.py",
        "runtime/living.py",
        "runtime/operators.py",
        "runtime/own.py",
        "runtime/probing.py",
    }
    # Whatever it calls what it holds, whoever makes calls has one of these; so each of them is listed, with its doors above.
    makers = (
        "Runtime",
        "SyncRuntime",
        "at_terminal",
        "hosting_here",
        "Engine",
        "opened",
        "run_own",
        "run_hook",
        "call_as_owner",
        "operate",
        "call_written",
        "call_once",
        "Calling",
        "Calls",
        "Hooks",
        "Inner",
        "KernelHere",
        "Living",
        "Needs",
        "probe",
        "resume",
    )
    places = ("metier.runtime", "metier.blocking", "metier.hooks", "metier.kernel.calling")
    holders = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ImportFrom)
        and (node.module or "").startswith(places)
        and any(alias.name in makers for alias in node.names)
    }
    assert holders == {
        "__init__.py",
        "blocking.py",
        "doors/cli/approvals.py",
        "doors/cli/by_itself.py",
        "doors/cli/call.py",
        "doors/cli/channels.py",
        "doors/cli/conversations.py",
        "doors/cli/host.py",
        "doors/cli/living.py",
        "doors/cli/mcp_import.py",
        "doors/cli/operate.py",
        "doors/cli/prompt.py",
        "doors/cli/run.py",
        "doors/cli/secrets.py",
        "doors/cli/settings.py",
        "doors/cli/tried.py",
        "doors/cli/serve.py",
        "doors/cli/trust.py",
        "doors/http/as_agent.py",
        "doors/http/endpoint.py",
        "doors/http/live.py",
        "doors/http/making.py",
        "doors/http/hearing.py",  # only hears of what happens
        "doors/http/opening.py",
        "doors/http/serving.py",
        "doors/http/sign_in_routes.py",
        "doors/mcp/calls.py",
        "doors/mcp/changes.py",
        "doors/mcp/http.py",
        "doors/mcp/prompts.py",
        "doors/mcp/refusals.py",
        "doors/mcp/resources.py",
        "doors/mcp/server.py",
        "doors/mcp/skill_files.py",
        "doors/mcp/tools.py",
        "runtime/standing_by.py",
        "doors/mcp/skills.py",
        "doors/mcp/stdio.py",
        "doors/telegram/door.py",
        "doors/telegram/inbound.py",
        "hooks/__init__.py",
        "hooks/firing.py",
        "kernel/deliveries.py",
        "kernel/delivery_skill.py",
        "kernel/firing.py",
        "kernel/firing_call.py",
        "kernel/schedule_firing.py",
        "kernel/schedule_notice.py",
        "kernel/schedules.py",
        "kernel/skills.py",
        "kernel/trigger_rounds.py",
        "kernel/triggers.py",
        "runtime/__init__.py",
        "runtime/agents.py",
        "runtime/as_owner.py",
        "runtime/engine.py",
        "runtime/explaining.py",
        "runtime/housing.py",
        "runtime/kernel_here.py",
        "runtime/kernel_parts.py",
        "runtime/living.py",
        "runtime/message_hooks.py",
        "runtime/modules.py",
        "runtime/once.py",
        "runtime/resume.py",
        "runtime/taking_up.py",
        "runtime/written.py",
    }


# --- the gates


class Gate(NamedTuple):
    """Something that holds a call. `ends` says how, by the kind of door; where it is silent the call goes through."""

    name: str
    close: Callable[[Yard], object]
    ends: dict[str, str]
    layer: str = ""
    recorded: bool = True


def every(code: str, *, but: tuple[str, ...] = ()) -> dict[str, str]:
    kinds = (
        "agent",
        "token",
        "resumed",
        "resumed token",
        "owner",
        "hook",
        "hook fired",
        "tester",
        "reader",
        "life",
        "fired",
        "inside",
    )
    held = {kind: code for kind in kinds if kind not in but}
    return {**held, "answered": code} if "owner" in held else held


def stopped(yard: Yard) -> None:
    with yard.opened() as database:
        stop(database, by=owner())


def disabled(yard: Yard) -> None:
    with yard.opened() as database:
        disable(database, "tea", why="it looked odd", by=owner())


def switched_off(yard: Yard) -> None:
    yard.configured('[skills]\ndisabled = ["tea"]\n')


def broken(yard: Yard) -> None:
    (yard.machine.skills / "tea" / "leaves.md").symlink_to("/etc/hostname")


def untrusted(yard: Yard) -> None:
    with yard.opened() as database:
        assert TrustStore(database).revoke("tea", by=owner())


def for_operators(yard: Yard) -> None:
    yard.tool = structs.replace(yard.tool, audience="operator")
    yard.hook_by = Principal(id="agent:library", kind="agent", on_behalf_of=owner())


def kept_from_models(yard: Yard) -> None:
    yard.written(disable_model_invocation="true")


def without_the_right(yard: Yard) -> None:
    yard.tool = structs.replace(yard.tool, permission="skills:trust")
    yard.hook_by = Principal(id="human:nobody", kind="human", roles=frozenset({"owner"}))


def revoked(yard: Yard) -> None:
    with yard.opened() as database:
        for agent in (*AGENTS, "agent:host", ANN):
            assert revoke_principal(database, agent, by=owner(), owner=owner()) == ""


def unequipped(yard: Yard) -> None:
    (yard.machine.bin / "kettle").unlink()


def observed(yard: Yard) -> None:
    with yard.opened() as database:
        set_level(database, "observe", by=owner())


def denied_by_rule(yard: Yard) -> None:
    yard.ruled("deny")


def beyond_its_grants(yard: Yard) -> None:
    yard.tool = structs.replace(yard.tool, permissions=PermissionSet(hosts=frozenset({"example.com"})))


def used_up(yard: Yard) -> None:
    # Firing a hook is nothing that anybody does, so there it is the tool that is counted.
    yard.configured("[budgets.principal]\ncalls = 0\n[budgets.tool]\ncalls = 0\n")


def on_the_floor(yard: Yard) -> None:
    yard.tool = structs.replace(yard.tool, permissions=PermissionSet(binaries=frozenset({"sh"})))
    yard.hook_workspace = str(yard.machine.state / "bundles")
    yard.run_options = ("--allow", f"write={yard.machine.state / 'bundles'}")
    writes = PermissionSet(writes=frozenset({str(yard.machine.state / "bundles")}))
    yard.own = structs.replace(yard.own, permissions=writes)


def ill_formed(yard: Yard) -> None:
    yard.arguments = {**yard.arguments, "nose": 1}
    yard.tool = structs.replace(yard.tool, parameters={**yard.tool.parameters, "required": ["name", "note"]})
    yard.event = {**yard.event, "nose": 1}
    yard.run_options = ("--args", '{"a": "\\u0001"}')
    yard.own = structs.replace(yard.own, arguments={"a": "\u0001"})


def gated(yard: Yard) -> None:
    yard.configured('[hooks]\ngate = ["nobody-is-there"]\n')


def asked_by_rule(yard: Yard) -> None:
    yard.ruled("ask")


def stopped_meanwhile(yard: Yard) -> None:
    yard.meanwhile = lambda: stopped(yard)


def disabled_meanwhile(yard: Yard) -> None:
    yard.meanwhile = lambda: disabled(yard)


def untrusted_meanwhile(yard: Yard) -> None:
    yard.meanwhile = lambda: untrusted(yard)


def revoked_meanwhile(yard: Yard) -> None:
    yard.meanwhile = lambda: revoked(yard)


def lowered_meanwhile(yard: Yard) -> None:
    yard.meanwhile = lambda: observed(yard)


def used_up_meanwhile(yard: Yard) -> None:
    once = "calls = 1\nseconds = 86400\n"
    yard.configured(f"[budgets.principal]\n{once}[budgets.tool]\n{once}")

    def others_were_quicker() -> None:
        with yard.opened() as database, database.transaction() as connection:
            names = [("principal", name) for name in (*AGENTS, *FIRED, "skill:tea", owner())]
            for key, name in (*names, ("tool", "hooks.run")):
                take_budget(connection, [Scope(key=key, name=name, calls=1, seconds=86_400)], moment())

    yard.meanwhile = others_were_quicker


def record_gone(yard: Yard) -> None:
    yard.meanwhile = lambda: away(yard.path)


PEOPLE: Final = ("owner", "tester", "reader", "life", "hook fired")
"""The owner, whose right it is."""

GATES: Final = (
    Gate("stopped", stopped, every("stopped"), "running"),
    Gate("disabled", disabled, every("skill_disabled", but=("owner",))),
    Gate("switched off", switched_off, every("skill_disabled", but=("owner",)), "switched_on"),
    Gate("broken", broken, every("skill_broken", but=("owner",)), "intact"),
    Gate("untrusted", untrusted, every("not_trusted", but=("owner",)), "trusted"),
    Gate("for operators only", for_operators, every("forbidden", but=PEOPLE)),
    Gate("kept from models", kept_from_models, every("forbidden", but=(*PEOPLE, "hook")), "audience"),
    Gate("without the right", without_the_right, every("forbidden", but=PEOPLE), "roles"),
    Gate(
        "revoked",
        revoked,
        {
            **every("forbidden", but=(*PEOPLE, "hook")),
            "token": "unauthenticated",
            "resumed token": "unauthenticated",
        },
    ),
    Gate("unequipped", unequipped, every("skill_unavailable", but=("owner",)), "equipped"),
    Gate("above the level", observed, every("forbidden", but=(*PEOPLE, "hook")), "ladder"),
    Gate("denied by a rule", denied_by_rule, every("forbidden"), "rules"),
    Gate(
        "beyond its grants",
        beyond_its_grants,
        every("forbidden", but=("owner", "hook", "hook fired")),
        "permissions",
    ),
    Gate("budget used up", used_up, every("budget_exceeded"), "budgets"),
    # What an operator himself does, and what reads or fires a hook, is not what hooks are asked about.
    Gate(
        "refused by a gate hook",
        gated,
        every("forbidden", but=("owner", "hook", "hook fired", "reader", "life")),
        "hooks",
    ),
    # What is fired reads the workspace and nothing else, whatever happened.
    Gate("what no call may do", on_the_floor, every("forbidden", but=("hook fired",)), "floor"),
    Gate("ill-formed", ill_formed, every("invalid_arguments", but=("reader", "life"))),
    Gate(
        "asked by a rule",
        asked_by_rule,
        # Somebody's word for the act was given under other rules; and what is gone with its process cannot wait for one.
        {
            "agent": "pending",
            "token": "pending",
            "resumed": "approval_void",
            "resumed token": "approval_void",
            "owner": "approval_required",
            "hook": "approval_required",
            "hook fired": "approval_required",
            "tester": "approval_required",
            "reader": "approval_required",
            "life": "approval_required",
            "fired": "approval_required",
            "inside": "pending",
        },
    ),
    Gate("stopped meanwhile", stopped_meanwhile, every("stopped")),
    Gate("disabled meanwhile", disabled_meanwhile, every("skill_disabled", but=("owner",))),
    Gate("untrusted meanwhile", untrusted_meanwhile, every("not_trusted", but=("owner",))),
    # Whoever it was that was let in or shown out: the call was judged by what no longer holds.
    Gate(
        "revoked meanwhile",
        revoked_meanwhile,
        {
            **every("changed_meanwhile"),
            **dict.fromkeys(("agent", "token", "resumed", "resumed token", "fired", "inside"), "forbidden"),
        },
    ),
    Gate("level lowered meanwhile", lowered_meanwhile, every("changed_meanwhile")),
    Gate("budget used up meanwhile", used_up_meanwhile, every("budget_exceeded")),
    Gate("record gone meanwhile", record_gone, every("record_unavailable"), recorded=False),
)
GATE: Final = {gate.name: gate for gate in GATES}


def held(yard: Yard, door: Door, gate: Gate, given: Any) -> None:
    """The check: the call ends as the gate says, nothing ran, and there is one record of it."""
    wanted = gate.ends[door.kind]
    before, ran = yard.head(), yard.ran
    how = door.go(yard, given)
    if not gate.recorded:
        back(yard.path)
    assert (how.how, how.code) == (("pending", "") if wanted == "pending" else ("refused", wanted)), how
    assert yard.ran == ran, "something ran"
    records = [(each.event, each.code) for each in yard.calls_since(before) if each.event in OF_CALLS]
    if door.kind == "answered":
        records = [each for each in records if each[0] != "skill_approval_queued"]
    if not gate.recorded or wanted == "unauthenticated":  # who is not let in makes no call
        assert records == []
    elif wanted == "pending":
        assert records == [("skill_approval_queued", "")]
    else:
        assert records == [("skill_execution_blocked", wanted)]


@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_with_every_gate_open_each_door_lets_the_call_through_once(yard: Yard, door: Door) -> None:
    given = door.begin(yard)
    before = yard.head()
    assert door.go(yard, given).how == "ran"
    assert yard.ran == 1
    events = [each.event for each in yard.calls_since(before) if each.event in OF_CALLS]
    assert events[events[0] == "skill_approval_queued" :] == ["skill_execution_started", "skill_executed"]


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.name)
@pytest.mark.parametrize("door", DOORS, ids=lambda door: door.name)
def test_apr_35_the_same_gate_stands_behind_every_door(yard: Yard, door: Door, gate: Gate) -> None:
    given = door.begin(yard)
    gate.close(yard)
    if door.kind in gate.ends:
        held(yard, door, gate, given)
    else:
        # It does not concern whoever comes in here, which is told apart from not being asked at all by the others.
        assert door.go(yard, given).how == "ran"
        assert yard.ran == 1


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = [value]
    return value


CAPS: Final[dict[str, Any]] = {
    "too deep": nested(40),
    "too large": "x" * (1 << 20),
    "no number": float("nan"),
    "too great a number": 2**53,
    "half a character": "\ud800",
    "a control character": "\x01",
}


@pytest.mark.parametrize("cap", CAPS)
@pytest.mark.parametrize(
    "name",
    [
        "Runtime.call",
        "Runtime.handle",
        "SyncRuntime.call",
        "SyncRuntime.handle",
        "an operation of the owner's",
        "the host",
        "a skill that is to deliver",
        "what a skill asks that lives",
    ],
)
def test_what_validate_takes_from_nobody_it_takes_from_no_door(yard: Yard, name: str, cap: str) -> None:
    open_schema = {**yard.tool.parameters, "properties": {"name": {"type": "string"}, "note": {}}}
    yard.tool = structs.replace(yard.tool, parameters=open_schema)
    yard.arguments = {"name": "tea", "note": nested(4)}
    assert BY_NAME[name].go(yard, None).how == "ran", "the positive control: a little of it is fine"
    yard.arguments = {"name": "tea", "note": CAPS[cap]}
    held(yard, BY_NAME[name], GATE["ill-formed"], None)


# --- each guard taken out in turn

LAYER_NAMES: Final = tuple(layer.__name__ for _, layer in authorize.LAYERS)
HELD_BY: Final = {gate.layer: gate for gate in GATES if gate.layer}
STILL_HELD: Final = {"running": Allowed, "trusted": Allowed, "budgets": Within}
"""What is asked once more when the call begins: there the layer keeps people from being asked in vain."""


def without_layer(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    kept = tuple(each for each in authorize.LAYERS if each[1].__name__ != name)
    assert len(kept) == len(authorize.LAYERS) - 1
    monkeypatch.setattr(authorize, "LAYERS", kept)


def without_term(monkeypatch: pytest.MonkeyPatch, kind: type) -> None:
    real = metier.pipeline.terms
    monkeypatch.setattr(
        metier.pipeline,
        "terms",
        lambda *given: tuple(each for each in real(*given) if not isinstance(each, kind)),
    )


def test_every_layer_has_a_gate_of_its_own_in_this_file() -> None:
    assert set(HELD_BY) | {"disclosure"} == set(LAYER_NAMES)


def test_every_term_is_taken_out_in_this_file() -> None:
    written = ast.parse((SOURCE / "gate" / "terms.py").read_text(encoding="utf-8"))
    named = {node.name for node in written.body if isinstance(node, ast.ClassDef)}
    assert named == {each.__name__ for each in (Allowed, Within, Decided, Granted, Confirmed)}


@pytest.mark.parametrize("layer", [name for name in LAYER_NAMES if name != "disclosure"])
def test_rel_19_without_one_layer_the_check_of_its_gate_fails(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, layer: str
) -> None:
    gate, asked = HELD_BY[layer], layer in STILL_HELD or layer == "intact"
    if asked:
        yard.always_asked()
    if layer == "ladder":
        yard.ruled(
            "allow"
        )  # without a word of somebody else, a call that no layer speaks for is refused anyway
    gate.close(yard)
    held(yard, CALL, gate, None)
    without_layer(monkeypatch, layer)
    with pytest.raises(AssertionError):
        held(yard, CALL, gate, None)
    records = [each.event for each in yard.calls_since(0)]
    assert ("skill_approval_queued" in records) is asked
    assert yard.ran == (0 if asked else 1), "what it held ran, or somebody was asked for it"


@pytest.mark.parametrize("layer", STILL_HELD)
def test_rel_19_without_a_layer_and_the_term_behind_it_what_is_forbidden_runs(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, layer: str
) -> None:
    gate = HELD_BY[layer]
    gate.close(yard)
    held(yard, CALL, gate, None)
    without_layer(monkeypatch, layer)
    without_term(monkeypatch, STILL_HELD[layer])
    with pytest.raises(AssertionError):
        held(yard, CALL, gate, None)
    assert yard.ran == 1


def test_rel_19_without_disclosure_nobody_could_read_a_skill(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    yard.tool = structs.replace(yard.tool, effect="read")
    observed(yard)

    def read() -> None:
        assert CALL.go(yard, None).how == "ran"

    read()
    without_layer(monkeypatch, "disclosure")
    with pytest.raises(AssertionError):
        read()


@pytest.mark.parametrize(
    ("name", "term"),
    [
        ("stopped meanwhile", Allowed),
        ("disabled meanwhile", Allowed),
        ("untrusted meanwhile", Allowed),
        ("revoked meanwhile", Allowed),
        ("level lowered meanwhile", Allowed),
        ("budget used up meanwhile", Within),
    ],
)
def test_rel_19_without_one_term_the_check_of_its_gate_fails(
    yard: Yard, monkeypatch: pytest.MonkeyPatch, name: str, term: type
) -> None:
    gate = GATE[name]
    gate.close(yard)
    without_term(monkeypatch, term)
    with pytest.raises(AssertionError):
        held(yard, CALL, gate, None)
    assert yard.ran == 1, "with it, the same gate holds: see test_apr_35"


def test_rel_19_calls_that_begin_in_one_transaction_share_what_is_left_of_a_budget(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each was judged when all of it was left. With the term, and then without."""
    yard.configured("[budgets.principal]\ncalls = 5\nseconds = 86400\n")

    async def rush(runtime: Runtime) -> list[Outcome]:
        outcomes: list[Outcome] = []
        house = runtime._engine.house()
        judged, everybody = [0], anyio.Event()

        async def look(valid: Any) -> Any:
            found = await house.look(valid)
            judged[0] += 1
            if judged[0] == 20:
                everybody.set()
            await everybody.wait()
            return found

        async def one() -> None:
            call = runtime._call(yard.tool.name, yard.arguments)
            outcomes.append(await run(call, structs.replace(house, look=look)))

        async with anyio.create_task_group() as tasks:
            for _ in range(20):
                tasks.start_soon(one)
        return outcomes

    outcomes = yard.with_runtime(rush)
    assert sum(isinstance(each, Completed) for each in outcomes) == yard.ran == 5
    assert {each.code for each in outcomes if isinstance(each, Refused)} == {"budget_exceeded"}
    without_term(monkeypatch, Within)
    yard.configured("[budgets.principal]\ncalls = 6\nseconds = 86400\n")
    yard.with_runtime(rush)
    assert yard.ran == 25


def taken_back_meanwhile(yard: Yard, approval: str) -> None:
    def take_back() -> None:
        with yard.opened() as database:
            revoke_approval(database, approval, by=DECIDER)

    yard.meanwhile = take_back


def test_rel_19_without_the_claim_what_was_taken_back_runs(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = Gate("taken back", lambda yard: None, {"resumed": "approval_void"})
    resume = BY_NAME["Runtime.resume"]
    first = yard.approved()
    yard.arguments = {**yard.arguments, "note": "another"}  # the same would be the first one, asked again
    second = yard.approved()
    taken_back_meanwhile(yard, first.approval_id)
    held(yard, resume, gate, first)
    taken_back_meanwhile(yard, second.approval_id)
    without_term(monkeypatch, Decided)
    with pytest.raises(AssertionError):
        held(yard, resume, gate, second)
    assert yard.ran == 1


def granted(yard: Yard) -> str:
    """A standing grant for what the yard's tool does, given with a first approval."""
    pending = yard.queued()
    with yard.opened() as database:
        found = find(database, pending.approval_id)
        assert found is not None
        assert found.shown is not None
        grant = proposed_grant(found.shown, "always", approval=pending.approval_id, by=owner())
        assert not isinstance(grant, str), grant
        decide(database, pending.approval_id, by=DECIDER, decision="approve", scope="always", grant=grant)
    return grant.id


def test_rel_19_without_its_term_a_grant_that_was_revoked_still_answers(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    grant = granted(yard)
    assert CALL.go(yard, None).how == "ran"
    yard.meanwhile = lambda: take_away(yard, grant)
    gate = Gate("grant revoked meanwhile", lambda yard: None, {"agent": "approval_required"})
    held(yard, CALL, gate, None)
    other = granted(yard)
    yard.meanwhile = lambda: take_away(yard, other)
    without_term(monkeypatch, Granted)
    with pytest.raises(AssertionError):
        held(yard, CALL, gate, None)
    assert yard.ran == 2


def take_away(yard: Yard, grant: str) -> None:
    with yard.opened() as database:
        revoke(database, grant, by=owner())


def said(yard: Yard, runtime: Runtime, id: str, *, turn: int, confirmed: bool) -> Call:
    return Call(
        id=id,
        principal=runtime._principal,
        tool=yard.tool.name,
        arguments={**yard.arguments, "confirmed": confirmed},
        surroundings=Surroundings(session="s-1", turn=turn),
    )


def twice_on_one_word(yard: Yard, act: str) -> list[Outcome]:
    """The caller is asked, says yes once, and two calls of that very act want to begin on his one word."""
    yard.tool = structs.replace(yard.tool, confirmation="Pour?")
    yard.arguments = {**yard.arguments, "note": act}

    async def main(runtime: Runtime) -> list[Outcome]:
        house = runtime._engine.house()
        outcomes = [await run(said(yard, runtime, f"{act}_0", turn=1, confirmed=False), house)]
        judged = {id: anyio.Event() for id in (f"{act}_1", f"{act}_2")}

        async def one(id: str) -> None:
            async def look(valid: Any) -> Any:
                assert question(valid, None) is not None
                found = await house.look(valid)
                judged[id].set()
                for each in judged.values():
                    await each.wait()
                return found

            call = said(yard, runtime, id, turn=2, confirmed=True)
            outcomes.append(await run(call, structs.replace(house, look=look)))

        async with anyio.create_task_group() as tasks:
            for id in judged:
                tasks.start_soon(one, id)
        return outcomes

    made: list[Outcome] = yard.with_runtime(main)
    return made


def test_rel_19_without_its_term_the_callers_one_word_counts_twice(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    def once(outcomes: list[Outcome]) -> None:
        assert isinstance(outcomes[0], Refused)
        assert outcomes[0].code == "confirmation_required"
        ran = [each for each in outcomes[1:] if isinstance(each, Completed)]
        late = [each.code for each in outcomes[1:] if isinstance(each, Refused)]
        assert (len(ran), late) == (1, ["confirmation_required"])

    once(twice_on_one_word(yard, "one"))
    assert yard.ran == 1
    without_term(monkeypatch, Confirmed)
    with pytest.raises(AssertionError):
        once(twice_on_one_word(yard, "other"))
    assert yard.ran == 3


def test_rel_19_without_the_desk_what_must_be_asked_runs_unasked(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = GATE["asked by a rule"]
    gate.close(yard)
    held(yard, CALL, gate, None)

    def nods(authorized: AuthorizedCall, situation: Any) -> ApprovedCall:
        return ApprovedCall(authorized=authorized, evidence="policy")

    monkeypatch.setattr(metier.pipeline, "approve", nods)
    with pytest.raises(AssertionError):
        held(yard, CALL, gate, None)
    assert yard.ran == 1


def test_rel_19_without_the_intent_something_runs_that_is_on_no_record(
    yard: Yard, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = GATE["record gone meanwhile"]
    gate.close(yard)
    held(yard, CALL, gate, None)

    async def intent(*_: Any) -> Intent:
        return Intent(seq=1, act=Act(principal="agent:library"))

    monkeypatch.setattr(Recorder, "intent", intent)
    with pytest.raises(AssertionError):
        held(yard, CALL, gate, None)
    assert yard.ran == 1


def test_rel_19_without_validate_the_ill_formed_runs(yard: Yard, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = GATE["ill-formed"]
    gate.close(yard)
    held(yard, CALL, gate, None)
    monkeypatch.setattr("metier.gate.validate._unfit", lambda arguments, tool: "")
    with pytest.raises(AssertionError):
        held(yard, CALL, gate, None)
    assert yard.ran == 1
