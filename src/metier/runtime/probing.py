"""Reads skills that exist only as code: each is run once, when its bytes are trusted, in a sandbox without any permission.

It is a call of the owner's like any other: every layer of the gate is asked, so nothing that is not trusted, or is disabled, is
run, and all of it is on the record. What comes out is kept with the bytes it came from. MCP servers are asked for their tools in the
same way, but with what they were granted, and only for a person who waits to look at them: what a server says is not kept before he did.
"""

import logging
import os
import secrets
from collections.abc import Sequence
from typing import Final

from anyio import to_thread
from msgspec.structs import replace

from metier.catalog.bundle import BundleStore, Snapshot
from metier.catalog.here import owner
from metier.catalog.listed import Listed
from metier.catalog.probed import Probed, keep
from metier.dialects.code_manifest import entry_of
from metier.dialects.frontmatter import MAX_BYTES
from metier.dialects.mcp_server import MANIFEST as MCP_SERVER
from metier.dialects.mcp_server import entry_of as server_entry
from metier.errors import BundleError
from metier.gate.situation import Situation
from metier.model.call import ApprovedCall, Call, Principal, ValidCall
from metier.model.diagnostic import Diagnostic
from metier.model.digest import Json
from metier.model.outcome import Completed, Failed, FailureCode, Outcome, Pending, Refused
from metier.model.skill import Limits, Tool
from metier.model.text import one_line
from metier.openfile import read_small
from metier.pipeline import House, run

_log: Final = logging.getLogger("metier.runtime")
NAME: Final = "operator.probe"
LIMITS: Final = Limits(timeout=10.0, output_bytes=262_144)
MOST_AT_ONCE: Final = 100
LISTING_SECONDS: Final = 60.0
"""For an MCP server, which may take a while to start."""
_MEANWHILE: Final = "it changed while you looked at it; look again"
_NOT_ITS_FAULT: Final[frozenset[FailureCode]] = frozenset(
    {"interrupted", "unrecorded", "internal", "busy", "not_started", "out_of_disk"}
)
_PARAMETERS: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {"skill": {"type": "string"}, "as": {"type": "string"}, "module": {"type": "string"}},
    "required": ["skill", "as"],
    "additionalProperties": False,
}


def waiting(listed: Sequence[Listed]) -> list[Listed]:
    """Those that may be run to be read: the operator vouches for them, and they are not switched off. MCP servers are not among them."""
    return [
        each
        for each in listed
        if each.probe
        and each.manifest != MCP_SERVER
        and each.skill is not None
        and each.skill.status == "active"
    ]


async def probe(several: Sequence[Listed], house: House, bundles: BundleStore) -> bool:
    """Run each and keep what it told. Gives whether anything was learned."""
    learned = False
    if len(several) > MOST_AT_ONCE:
        _log.warning("%d skills wait to be read by running them; %d are now", len(several), MOST_AT_ONCE)
    for each in several[:MOST_AT_ONCE]:
        try:
            learned |= await _probe(each, house, bundles)
        except BundleError as error:
            _log.warning(
                "%s could not be read by running it: %s", one_line(each.folder), one_line(str(error))
            )
    return learned


async def ask(listed: Listed, house: House, bundles: BundleStore, digest: str) -> Probed | str:
    """What an MCP server tells of its tools, for somebody to look at; nothing of it is kept. Otherwise why it told nothing.

    Args:
        digest: of the bytes that are to be asked, and no others.
    """
    ran = await _ran(listed, house)
    if ran is None:
        return _MEANWHILE
    tool, outcome, found = ran
    match outcome:
        case Completed(value=dict() as value):
            snapshot = await to_thread.run_sync(bundles.open, found) if found == digest else None
            same = snapshot is not None and await to_thread.run_sync(_is_entry, snapshot, listed, tool)
            return Probed(exported=value) if same else _MEANWHILE
        case Completed():
            return "it told nothing"
        case Failed(code="timed_out"):
            return f"it did not tell its tools within {LISTING_SECONDS:g} s"
        case Failed(message=message):
            return message
        case Pending(reasons=reasons) | Refused(reasons=reasons):
            return "; ".join(reasons)


async def _probe(listed: Listed, house: House, bundles: BundleStore) -> bool:
    ran = await _ran(listed, house)
    if ran is None:
        return False
    tool, outcome, digest = ran
    told = _told(outcome, listed)
    return told is not None and await to_thread.run_sync(_kept, listed, tool, bundles, digest, told)


async def _ran(listed: Listed, house: House) -> tuple[Tool, Outcome, str] | None:
    """What was run, what became of it, and the digest of the bytes it was; nothing where there is none to be run."""
    tool = await to_thread.run_sync(_tool, listed)
    if tool is None or listed.skill is None:
        return None
    arguments: dict[str, Json] = {"skill": listed.name, "as": listed.skill.dialect}
    if listed.manifest.endswith(".py"):
        arguments["module"] = module_name(listed)
    call = Call(
        id=f"call_{secrets.token_hex(12)}",
        principal=Principal(id=owner(), kind="human", roles=frozenset({"owner"})),
        tool=NAME,
        arguments=arguments,
        fleeting=True,
    )
    digest = ""

    async def look(valid: ValidCall) -> Situation:
        nonlocal digest
        found = await house.look(valid)
        digest = found.held.bytes.digest if found.held is not None and found.held.bytes is not None else ""
        # Nothing of it is called by a name here, so one that it may not have keeps nobody from looking.
        return replace(found, missing=tuple(each for each in found.missing if each.type != "function name"))

    outcome = await run(
        call,
        House(
            tools={NAME: tool},
            catalog=house.catalog,
            look=look,
            operations=house.operations,
            recorder=house.recorder,
            # To be read is not to be used: nothing is granted by it, so nothing is bound to the bytes of it.
            workshop=replace(house.workshop, bind=_not_bound),
        ),
    )
    return tool, outcome, digest


def _not_bound(_approved: ApprovedCall) -> bool:
    return True


def _tool(listed: Listed) -> Tool | None:
    """What the gate judges, by the manifest as it lies there now."""
    path = (
        listed.folder
        if listed.folder.endswith(f"/{listed.manifest}")
        else os.path.join(listed.folder, listed.manifest)
    )
    found = read_small(path, most=MAX_BYTES, hard_links=listed.root.hard_links)
    if listed.manifest == MCP_SERVER:
        return None if isinstance(found, Diagnostic) else _server_tool(found[0], listed)
    entry = "" if isinstance(found, Diagnostic) else entry_of(found[0], listed.manifest)
    if isinstance(entry, str):
        return None  # it changed since it was listed, and will be listed anew
    return Tool(
        name=NAME,
        description="Run a skill that exists only as code, to read what it says about itself.",
        parameters=_PARAMETERS,
        audience="operator",
        subject="skill",
        limits=LIMITS,
        entry=entry,
    )


def _server_tool(data: bytes, listed: Listed) -> Tool | None:
    """An MCP server is asked for its tools with what it was granted: without that most would not so much as start."""
    made = server_entry(data, listed.manifest, listed.name)
    if made is None:
        return None
    entry, permissions, limits = made
    return Tool(
        name=NAME,
        description="Run an MCP server, to ask which tools it has.",
        parameters=_PARAMETERS,
        audience="operator",
        subject="skill",
        permissions=permissions,
        limits=replace(limits, timeout=LISTING_SECONDS),
        entry=entry,
    )


def module_name(listed: Listed) -> str:
    """The name a Python package or module is imported by."""
    place = (
        listed.folder.removesuffix(f"/{listed.manifest}")
        if listed.manifest == "__init__.py"
        else listed.folder
    )
    return os.path.basename(place).removesuffix(".py")


def _told(outcome: Outcome, listed: Listed) -> Probed | None:
    """What there is to keep; nothing where it was not run, or where that says nothing about the code."""
    match outcome:
        case Completed(value=dict() as value):
            return Probed(exported=value)
        case Completed():
            return Probed(problem="it told nothing")
        case Failed(code="timed_out"):  # the limits are ours, so there is none to be raised
            return Probed(problem=f"it did not end within {LIMITS.timeout:g} s")
        case Failed(code="out_of_memory"):
            return Probed(problem=f"it needed more than {LIMITS.memory_mb} MB")
        case Failed(code=code, message=message) if code not in _NOT_ITS_FAULT:
            return Probed(problem=message)
        case Failed(message=message):
            why = message
        case _:
            why = "; ".join(outcome.reasons)
    _log.warning("the skill %r was not read: %s", listed.name, why)
    return None


def _kept(listed: Listed, tool: Tool, bundles: BundleStore, digest: str, told: Probed) -> bool:
    snapshot = bundles.open(digest) if digest else None
    if snapshot is None or not _is_entry(snapshot, listed, tool):
        return False  # it was changed meanwhile: what ran is not what these bytes would have run
    return keep(snapshot, told)


def _is_entry(snapshot: Snapshot, listed: Listed, tool: Tool) -> bool:
    data = snapshot.read(listed.manifest)
    if data is not None and listed.manifest == MCP_SERVER:
        made = server_entry(data, listed.manifest, listed.name)
        return made is not None and made[0] == tool.entry
    return data is not None and entry_of(data, listed.manifest) == tool.entry
