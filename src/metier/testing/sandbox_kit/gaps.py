"""What our own backends are known not to do. Each line is tried: one that is no longer true makes the kit fail."""

import os
from typing import Final

from metier.model.guarantee import Guarantee
from metier.testing.sandbox_kit.backend import Gap

_NO_NAMESPACES: Final = (
    Gap(
        behaviour=38,
        what=frozenset({"existence"}),
        reason="Landlock guards what is in a file, not whether there is one",
        guarantee=Guarantee.EXISTENCE,
    ),
    Gap(
        behaviour=51,
        what=frozenset({"see", "look", "hold"}),
        reason="without a process namespace a number tells whether somebody has it",
        guarantee=Guarantee.PROCESSES_HIDDEN,
    ),
    Gap(
        behaviour=47,
        what=frozenset(),
        reason="without a network namespace there is no network of its own to give out",
        guarantee=Guarantee.NETWORK_BY_GRANT,
    ),
)

BUBBLEWRAP_NATIVE: Final[tuple[Gap, ...]] = ()
_OWN_WIRE: Final = Gap(
    behaviour=29,
    what=frozenset({"frames_by_descriptor"}),
    reason="code and the library that asks for it are one process, so it can read the answers to its own questions "
    "as they come in; nothing else ever comes in there",
)
BUBBLEWRAP_PYTHON: Final = (_OWN_WIRE,)
BUBBLEWRAP_STRAIGHT: Final = (
    Gap(
        behaviour=14,
        what=frozenset({"together"}),
        reason="without a control group each process has a limit of its own",
        guarantee=Guarantee.MEMORY_EXACT,
    ),
    Gap(
        behaviour=31,
        what=frozenset({"exit_137", "apart"}),
        reason="bubblewrap tells a signal as a shell does, so an exit code above 128 reads like one",
    ),
    Gap(
        behaviour=56,
        what=frozenset({"system_call"}),
        reason="nobody is there to be told: forbidden system calls are refused, and that is all",
        guarantee=Guarantee.VIOLATIONS_SEEN,
    ),
)
_GROUPS_OF_THE_HOST: Final = Gap(
    behaviour=49,
    what=frozenset({"groups"}),
    reason="without a user namespace a run is the host's own user, and who is not root cannot give his groups up; what they "
    "open to it is bounded by Landlock",
)
# Seen only where the host is in some. Root gives its own up; nobody else can.
_SEEN: Final = os.geteuid() != 0 and bool({*os.getgroups()} - {os.getgid(), 65_534})
LANDLOCK_NATIVE: Final = (*_NO_NAMESPACES, *([_GROUPS_OF_THE_HOST] if _SEEN else []))
LANDLOCK_PYTHON: Final = (*LANDLOCK_NATIVE, _OWN_WIRE)
BUBBLEWRAP_DENO: Final = (_OWN_WIRE,)
LANDLOCK_DENO: Final = (
    _OWN_WIRE,
    Gap(
        behaviour=38,
        what=frozenset(),
        reason="the engine tells nobody whether a file exists, but an engine alone is not believed",
        guarantee=Guarantee.EXISTENCE,
    ),
    Gap(
        behaviour=51,
        what=frozenset(),
        reason="the engine lets nobody look at processes, but an engine alone is not believed",
        guarantee=Guarantee.PROCESSES_HIDDEN,
    ),
)
WASM: Final = (
    Gap(
        behaviour=31,
        what=frozenset({"exit_137"}),
        reason="WASI has no exit codes above 125; the module is told so and ends in an error of its own",
    ),
    Gap(
        behaviour=47,
        what=frozenset(),
        reason="a module has no sockets; what it wants from the network it asks of the host",
        guarantee=Guarantee.NETWORK_BY_GRANT,
    ),
)

_UNSHOWN: Final = (
    "the engine does not show the memory of a component, so a refusal is told as what the code made of it"
)
WASM_COMPONENTS: Final = (
    *WASM,
    Gap(behaviour=31, what=frozenset({"apart"}), reason=_UNSHOWN),
    Gap(behaviour=60, what=frozenset({"killed_memory"}), reason=_UNSHOWN),
)

_NO_CODE: Final = "no code of a skill runs: our own process sends one request, and"
_NOTHING_TO_TRY: Final = (
    (12, ("huge",), "what an answer unpacks to counts as output"),
    (17, ("fill",), "an answer is kept nowhere on the disk"),
    (18, ("open_files",), "a request has one connection"),
    (19, ("recursion",), "nothing of the skill's calls itself"),
    (29, ("read_input",), "nothing reads an input"),
    (35, ("environment",), "there is no environment; a request has the headers its entry names"),
    (36, ("here",), "there is no working directory"),
    (37, ("here",), "there is no working directory"),
    (38, ("read_outside", "exists"), "there is nobody to open a file"),
    (40, ("change",), "there is nobody to open a file"),
    (41, ("change",), "there is nobody to open a file"),
    (42, ("here",), "nothing is mounted"),
    (59, ("break_itself",), "there is no guest that could be used again; a connection is not either"),
)
_NOT_PROMISED: Final = {
    Guarantee.CONTENTS: (38, "files are out of its reach because nothing opens any"),
    Guarantee.EXISTENCE: (38, "files are out of its reach because nothing opens any"),
    Guarantee.METADATA: (41, "files are out of its reach because nothing opens any"),
    Guarantee.NO_NETWORK: (47, "the network is all it has; which part of it is granted is promised instead"),
    Guarantee.PROCESSES_HIDDEN: (51, "there is nobody to look at processes"),
    Guarantee.TREE_KILLED: (21, "there is no process to be killed; the connection is closed with the call"),
    Guarantee.MEMORY_BOUNDED: (11, "the memory is ours, and bounded by the limit on output"),
    Guarantee.MEMORY_EXACT: (14, "the memory is ours, and bounded by the limit on output"),
    Guarantee.PROCESSES_BOUNDED: (15, "there are no processes"),
    Guarantee.DISK_BOUNDED: (17, "an answer is kept nowhere on the disk"),
    Guarantee.NO_PRIVILEGE: (49, "there is nobody to use a privilege"),
    Guarantee.VIOLATIONS_SEEN: (
        56,
        "there are no system calls of a skill to be seen; a private address is, by egress",
    ),
}
HTTP: Final = (
    Gap(
        behaviour=1,
        what=frozenset({"taken_away"}),
        reason=f"{_NO_CODE} needs nothing that a machine could lack",
    ),
    *(Gap(behaviour=number, needs=acts, reason=f"{_NO_CODE} {why}") for number, acts, why in _NOTHING_TO_TRY),
    *(
        Gap(behaviour=number, reason=f"{_NO_CODE} {why}", guarantee=guarantee)
        for guarantee, (number, why) in _NOT_PROMISED.items()
    ),
    Gap(
        behaviour=27,
        what=frozenset({"counted"}),
        reason="a download is broken off at the limit, so nobody knows how much more there would have been",
    ),
    Gap(
        behaviour=31,
        what=frozenset({"exit_3", "exit_137", "apart"}),
        reason="a request has no exit code; why no answer came is told in words",
    ),
    Gap(
        behaviour=60,
        what=frozenset({"memory", "output", "killed_memory", "killed_time"}),
        reason="the work is done by our own process, which does not keep account of it by request; "
        "of an answer that did not come whole no bytes are told",
    ),
)
