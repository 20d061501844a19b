"""`metier run`: the owner runs a file of his own, through every stage and onto the record."""

import os
import secrets
import time
from typing import final

import anyio
from anyio import to_thread
from msgspec import Struct

from metier.catalog.bundle import BundleStore
from metier.catalog.catalog import Catalog
from metier.catalog.here import owner
from metier.catalog.hold import Held
from metier.config.settings import Settings
from metier.execute import Workshop
from metier.gate.situation import Situation
from metier.host.running import Running
from metier.model.call import Bytes, Call, Principal, ValidCall
from metier.model.digest import Json
from metier.model.entry import Entry
from metier.model.outcome import Outcome
from metier.model.permission import PermissionSet
from metier.model.skill import Limits, Tool
from metier.pipeline import House, run
from metier.record.recorder import Recorder
from metier.runtime.run_folder import run_folder
from metier.runtime.sandboxes import Sandboxes
from metier.runtime.state import Operations, State, ground


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


async def run_own(settings: Settings, wanted: OwnRun) -> Outcome:
    """The call behind `metier run`: the owner runs a file of his own, through every stage and onto the record.

    Raises:
        MetierError: when configuration or state cannot be used.
    """
    state = await to_thread.run_sync(State, lambda: settings)
    sandboxes = Sandboxes(settings)
    try:
        with run_folder(os.path.join(settings.cache, "runs")) as folder:
            digest, bundles = await to_thread.run_sync(_stored, wanted, folder)
            tool = _own_tool(wanted)
            call = Call(
                id=f"call_{secrets.token_hex(12)}",
                principal=Principal(id=owner(), kind="human", roles=frozenset({"owner"})),
                tool=tool.name,
                arguments=wanted.arguments,
                cwd=wanted.cwd,
            )

            async def judged(_valid: ValidCall) -> Situation:
                # What he typed is what he granted, for these bytes and this once.
                held = Held(bytes=Bytes(digest=digest), granted=wanted.permissions)
                return Situation(held=held, granted=wanted.permissions)

            house = House(
                tools={tool.name: tool},
                catalog=Catalog(),
                look=judged,
                operations=Operations(state, Catalog()),
                recorder=Recorder(state.log, tools=[tool.name]),
                workshop=Workshop(
                    sandboxes=sandboxes,
                    snapshot=bundles.open,
                    host=sandboxes.host,
                    ground=ground(settings),
                    packages=settings.python.packages,
                    environ=dict(os.environ),
                    running=Running(),
                ),
            )
            return await run(call, house)
    finally:
        with anyio.CancelScope(shield=True):
            await sandboxes.aclose()
        state.database.close()


def _stored(wanted: OwnRun, folder: str) -> tuple[str, BundleStore]:
    """The file as a snapshot in a store of its own, for as long as it runs."""
    given = os.path.join(folder, "given")
    os.mkdir(given, 0o700)
    with open(os.path.join(given, wanted.name), "xb") as file:
        file.write(wanted.data)
    bundles = BundleStore(os.path.join(folder, "bundles"))
    return bundles.take(given, now_ns=time.time_ns()).digest, bundles


def _own_tool(wanted: OwnRun) -> Tool:
    return Tool(
        name="operator.run",
        description="Run a file of the owner's own.",
        parameters={"type": "object", "additionalProperties": True},
        audience="operator",
        permissions=wanted.permissions,
        limits=wanted.limits,
        entry=wanted.entry,
    )
