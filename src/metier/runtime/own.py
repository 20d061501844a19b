"""`metier run`: the owner runs a file of his own, through every stage and onto the record."""

import logging
import os
import secrets
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeAlias, final

import anyio
from anyio import to_thread
from msgspec import Struct

from metier.catalog.bundle import BundleStore
from metier.catalog.catalog import Catalog
from metier.catalog.here import owner
from metier.catalog.hold import Held
from metier.config.settings import Settings
from metier.errors import MetierError
from metier.gate.situation import Bytes as Found
from metier.gate.situation import Situation
from metier.host.running import Running
from metier.model.call import Bytes, Call, Principal, ValidCall
from metier.model.digest import Json
from metier.model.entry import Entry
from metier.model.outcome import Outcome, Pending, Refused
from metier.model.permission import PermissionSet
from metier.model.skill import Limits, Tool
from metier.pipeline import House, run
from metier.prepare import Workshop
from metier.record.approvals import find, stored_call
from metier.record.deciding import withdraw
from metier.record.recorder import Recorder
from metier.record.writer import Writer
from metier.runtime.guard import guard
from metier.runtime.run_folder import run_folder
from metier.runtime.sandboxes import Sandboxes
from metier.runtime.state import Operations, State
from metier.runtime.waiting import refusal

_log: Final = logging.getLogger("metier.runtime")
OPERATOR_RUN: Final = "operator.run"
Ask: TypeAlias = Callable[[Settings, str], Awaitable[object]]


@final
class OwnRun(Struct, frozen=True, kw_only=True):
    """A file that the owner wants run, and what he allowed while he said so."""

    name: str
    """Of the file, without its folder."""
    data: bytes
    entry: Entry
    """How it is run; a path in it is `name`."""
    arguments: Json = {}
    permissions: PermissionSet = PermissionSet()
    limits: Limits = Limits()
    cwd: str | None = None


async def run_own(settings: Settings, wanted: OwnRun, ask: Ask | None = None) -> Outcome:
    """The call behind `metier run`: the owner runs a file of his own, through every stage and onto the record.

    Args:
        ask: has the owner asked where a rule of his wants that. Without it what must be asked is refused: his file is gone
            when this ends. So is a request that was not taken up by then.

    Raises:
        MetierError: when configuration or state cannot be used.
    """
    state = await to_thread.run_sync(State, lambda: settings)
    sandboxes = Sandboxes(settings)
    running = Running()
    asked: Pending | None = None
    try:
        with run_folder(os.path.join(settings.cache, "runs")) as folder:
            digest, bundles = await to_thread.run_sync(_stored, wanted, folder)
            tool, environ = own_tool(wanted), dict(os.environ)
            call = Call(
                id=f"call_{secrets.token_hex(12)}",
                principal=Principal(id=owner(), kind="human", roles=frozenset({"owner"})),
                tool=tool.name,
                arguments=wanted.arguments,
                cwd=wanted.cwd,
                fleeting=ask is None,
            )
            seen = state.seen_without_skills(settings)

            async def judged(valid: ValidCall) -> Situation:
                # What he typed is what he granted, for these bytes and this once.
                held = Held(bytes=Bytes(digest=digest, file=wanted.name), granted=wanted.permissions)
                # Looked at anew: the rules may change while he is asked.
                return await to_thread.run_sync(
                    lambda: state.look_at(
                        valid, state.seen_without_skills(settings), Found(held=held), environ, wait=True
                    )
                )

            house = House(
                tools={tool.name: tool},
                catalog=Catalog(),
                look=judged,
                operations=Operations(state, Catalog()),
                recorder=Recorder(state.log, Writer(state.database), tools=[tool.name].__contains__),
                workshop=Workshop(
                    sandboxes=sandboxes,
                    snapshot=bundles.open,
                    host=sandboxes.host,
                    ground=seen.ground,
                    packages=settings.python.packages,
                    environ=environ,
                    running=running,
                ),
            )
            outcome = await _guarded(call, house, state, running)
            if not isinstance(outcome, Pending) or ask is None:
                return outcome
            asked = outcome
            await ask(settings, asked.approval_id)
            return await _answered(asked, house, state, running)
    finally:
        with anyio.CancelScope(shield=True):
            if asked is not None:
                await to_thread.run_sync(_withdrawn, state, asked.approval_id)
            await sandboxes.aclose()
        state.database.close()


async def _guarded(call: Call, house: House, state: State, running: Running) -> Outcome:
    outcome: list[Outcome] = []
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(guard, state, running)
        outcome.append(await run(call, house))
        tasks.cancel_scope.cancel()
    return outcome[0]


async def _answered(pending: Pending, house: House, state: State, running: Running) -> Outcome:
    """Run what was approved."""
    stored = await to_thread.run_sync(stored_call, state.database, pending.approval_id)
    if stored is not None:
        return await _guarded(stored, house, state, running)
    found = await to_thread.run_sync(find, state.database, pending.approval_id)
    if found is not None and found.state == "pending":
        return Refused(call_id=pending.call_id, code="approval_required", reasons=("it was not approved",))
    return refusal(pending.call_id, found)


def _withdrawn(state: State, approval: str) -> None:
    """What was not taken up is over, however this ended: nobody else has the file. Where that cannot be written it waits until
    its time is over, and still nobody can run it."""
    try:
        found = find(state.database, approval)
        if found is not None and found.state in ("pending", "approved"):
            withdraw(state.database, approval, principal=owner())
    except MetierError as error:
        _log.warning("what nobody can run any more could not be withdrawn: %s", error)


def _stored(wanted: OwnRun, folder: str) -> tuple[str, BundleStore]:
    """The file as a snapshot in a store of its own, for as long as it runs."""
    given = os.path.join(folder, "given")
    os.mkdir(given, 0o700)
    with open(os.path.join(given, wanted.name), "xb") as file:
        file.write(wanted.data)
    bundles = BundleStore(os.path.join(folder, "bundles"))
    return bundles.take(given, now_ns=time.time_ns()).digest, bundles


def own_tool(wanted: OwnRun) -> Tool:
    """What the gate judges when the owner runs a file."""
    return Tool(
        name=OPERATOR_RUN,
        description="Run a file of the owner's own.",
        parameters={"type": "object", "additionalProperties": True},
        audience="operator",
        permissions=wanted.permissions,
        limits=wanted.limits,
        entry=wanted.entry,
    )
