"""What a sandbox can promise, by name. A job lists the ones it needs; where one is missing nothing runs."""

from enum import StrEnum
from typing import Final, final

from metier.model.entry import (
    Command,
    Entry,
    HttpRequest,
    InlineCode,
    Operation,
    Program,
    PythonHandler,
    RemoteTool,
    ScriptHandler,
    WasmModule,
)


@final
class Guarantee(StrEnum):
    """One promise. Each has at least one behaviour of the contract kit that fails where it is broken."""

    CONTENTS = "contents"
    """Files outside the grants can be neither read nor changed."""
    METADATA = "metadata"
    """Mode, owner, times and attributes of files outside the grants cannot be changed."""
    EXISTENCE = "existence"
    """Whether a file outside the grants exists cannot be found out."""
    NO_NETWORK = "no_network"
    """No address of any family can be reached, the host's own loopback included."""
    NETWORK_BY_GRANT = "network_by_grant"
    """The network is reached only through egress, which lets through what was granted."""
    PROCESSES_HIDDEN = "processes_hidden"
    """Processes outside the run cannot be seen, signalled or traced."""
    TREE_KILLED = "tree_killed"
    """When a run ends, by itself or by force, nothing it started is left."""
    MEMORY_BOUNDED = "memory_bounded"
    """Each process of a run has a memory limit."""
    MEMORY_EXACT = "memory_exact"
    """All memory of a run together has one limit."""
    CPU_BOUNDED = "cpu_bounded"
    """A run ends at its time limit, whatever it does."""
    PROCESSES_BOUNDED = "processes_bounded"
    """A run can have only so many processes and threads."""
    OUTPUT_BOUNDED = "output_bounded"
    """A run can make only so much output."""
    DISK_BOUNDED = "disk_bounded"
    """A run can fill only so much disk."""
    NO_PRIVILEGE = "no_privilege"
    """No capability, no setuid program and no dangerous system call is of use."""
    FRESH_STATE = "fresh_state"
    """Nothing but granted writes is left for the next run."""
    VIOLATIONS_SEEN = "violations_seen"
    """An attempt at what no skill may ever do is reported to the host."""


MEANING: Final[dict[Guarantee, str]] = {
    Guarantee.CONTENTS: "files outside the grants can be neither read nor changed",
    Guarantee.METADATA: "mode, owner and times of files outside the grants stay as they are",
    Guarantee.EXISTENCE: "whether a file outside the grants exists stays hidden",
    Guarantee.NO_NETWORK: "no network",
    Guarantee.NETWORK_BY_GRANT: "the network only through egress, to granted hosts",
    Guarantee.PROCESSES_HIDDEN: "processes outside the run cannot be seen or signalled",
    Guarantee.TREE_KILLED: "nothing the run started outlives it",
    Guarantee.MEMORY_BOUNDED: "a memory limit for each process",
    Guarantee.MEMORY_EXACT: "one memory limit for the whole run",
    Guarantee.CPU_BOUNDED: "it ends at its time limit",
    Guarantee.PROCESSES_BOUNDED: "a limit on processes and threads",
    Guarantee.OUTPUT_BOUNDED: "a limit on output",
    Guarantee.DISK_BOUNDED: "a limit on disk",
    Guarantee.NO_PRIVILEGE: "no privilege to gain",
    Guarantee.FRESH_STATE: "nothing is left for the next run",
    Guarantee.VIOLATIONS_SEEN: "attempts at forbidden things are reported",
}

_CODE: Final = frozenset(
    {
        Guarantee.CONTENTS,
        Guarantee.METADATA,
        Guarantee.NO_NETWORK,
        Guarantee.TREE_KILLED,
        Guarantee.MEMORY_BOUNDED,
        Guarantee.CPU_BOUNDED,
        Guarantee.PROCESSES_BOUNDED,
        Guarantee.OUTPUT_BOUNDED,
        Guarantee.DISK_BOUNDED,
        Guarantee.NO_PRIVILEGE,
        Guarantee.FRESH_STATE,
        Guarantee.VIOLATIONS_SEEN,
    }
)
_OUR_OWN_REQUEST: Final = frozenset(
    {Guarantee.NETWORK_BY_GRANT, Guarantee.CPU_BOUNDED, Guarantee.OUTPUT_BOUNDED, Guarantee.FRESH_STATE}
)

DEFAULTS: Final[dict[type[Entry], frozenset[Guarantee]]] = {
    ScriptHandler: _CODE,
    PythonHandler: _CODE,
    InlineCode: _CODE,
    WasmModule: _CODE,
    # A program of the machine, not of the skill: what it may never do is refused it all the same, but a first call
    # need not wait for a supervisor that would tell us of the attempt.
    Command: _CODE - {Guarantee.VIOLATIONS_SEEN},
    Program: _CODE,
    HttpRequest: _OUR_OWN_REQUEST,
    Operation: frozenset(),
    # Over standard input and output; the server lives on between calls, so its state is not fresh.
    RemoteTool: _CODE - {Guarantee.FRESH_STATE},
}
"""What a kind of entry needs where its tool says nothing more. The same table stands in docs/sandboxes.md."""


def needed(entry: Entry, *, network: bool) -> frozenset[Guarantee]:
    """What a run of `entry` needs; code that may use the network needs its way out instead of none."""
    if isinstance(entry, RemoteTool) and (entry.reached is None or entry.reached.url):
        return _OUR_OWN_REQUEST - {Guarantee.FRESH_STATE}  # nothing of it runs here
    base = DEFAULTS[type(entry)]
    if network and Guarantee.NO_NETWORK in base:
        return base - {Guarantee.NO_NETWORK} | {Guarantee.NETWORK_BY_GRANT}
    return base
