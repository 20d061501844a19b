"""Which behaviour of the contract kit finds out which fault, and by which words. What nothing can break is no test."""

import os
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

from kit_backends import (
    bubblewrap_deno,
    bubblewrap_native,
    bubblewrap_python,
    http,
    landlock_native,
    landlock_python,
)
from kit_faults import (
    Alarmed,
    AllAlike,
    AlwaysWell,
    Believing,
    ByTheWall,
    Faulty,
    Free,
    GoesOn,
    HoldsTheLoop,
    HostOfAnother,
    InItsOwnFolder,
    Late,
    LeavesADescriptor,
    LeavesAFolder,
    LeavesAProcess,
    Lenient,
    LetsAllThrough,
    Limitless,
    NeverBusy,
    NoWayOut,
    OfTheOneBefore,
    OneForAll,
    SaysTooLittle,
    SaysTooMuch,
    Shortens,
    Silent,
    TakesOptions,
    TakesTheShippedMap,
    TellsAll,
    nothing_taken_away,
    one_folder_for_all,
    runs_all_the_same,
    with_fault,
)
from kit_faults_seen import (
    HomeElsewhere,
    HomeOfTheHost,
    OwnFilesWritable,
    ShowsMore,
    UsedAgain,
    keeps_groups,
)
from metier.testing.sandbox_kit.backend import Backend


class Fault(NamedTuple):
    """A backend, the behaviour that finds its fault, and by which names among others."""

    number: int
    what: str
    backend: Callable[[], Backend]
    broken: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.number:02}_{self.what}"


def _fault(number: int, fault: type[Faulty], make: Callable[[], Backend], *broken: str) -> Fault:
    return Fault(number, fault.__name__, with_fault(fault, make), broken)


FAULTS: Final = (
    Fault(1, "runs_all_the_same", runs_all_the_same, ("refused",)),
    Fault(1, "nothing_taken_away", nothing_taken_away, ("taken_away",)),
    _fault(2, SaysTooLittle, bubblewrap_native, "explained"),
    _fault(2, SaysTooMuch, landlock_native, "gap"),
    _fault(3, Limitless, bubblewrap_native, "timeout", "memory_mb", "output_bytes", "processes"),
    _fault(4, TakesOptions, bubblewrap_native, "command"),
    _fault(4, TakesOptions, bubblewrap_python, "arguments"),
    _fault(5, Late, bubblewrap_native, "in_time"),
    _fault(7, Late, bubblewrap_python, "in_time"),
    _fault(7, HoldsTheLoop, bubblewrap_python, "ping"),
    _fault(9, ByTheWall, bubblewrap_native, "not_early", "in_time"),
    _fault(10, OneForAll, bubblewrap_native, "neighbour"),
    _fault(26, GoesOn, bubblewrap_native, "in_time"),
    _fault(28, Shortens, bubblewrap_python, "output"),
    _fault(31, AllAlike, bubblewrap_native, "good", "late", "exit_3", "signal_6", "apart"),
    _fault(32, AlwaysWell, bubblewrap_native, "exit", "raised"),
    _fault(32, AlwaysWell, bubblewrap_python, "no_result", "raised"),
    _fault(33, Believing, bubblewrap_python, "forged"),
    _fault(34, Lenient, bubblewrap_python, "object", "set", "cycle", "not_a_number", "bytes", "apart"),
    _fault(35, HomeOfTheHost, bubblewrap_native, "secrets", "home"),
    _fault(35, HomeElsewhere, landlock_python, "home"),
    _fault(36, InItsOwnFolder, bubblewrap_native, "there", "apart", "below"),
    _fault(38, ShowsMore, bubblewrap_native, "host_folders"),
    _fault(38, ShowsMore, landlock_python, "host_folders"),
    _fault(40, OwnFilesWritable, bubblewrap_native, "own_bundle", "own_packages"),
    _fault(40, OwnFilesWritable, bubblewrap_deno, "own_bundle", "own_packages"),
    _fault(45, TakesTheShippedMap, bubblewrap_deno, "ignored"),
    *(
        _fault(47, LetsAllThrough, make, "other", "redirected", "looked_up")
        for make in (bubblewrap_native, bubblewrap_python, http)
    ),
    _fault(47, NoWayOut, bubblewrap_native, "plain", "tunnel"),
    Fault(46, "OneFolderForAll", one_folder_for_all, ("clean",)),
    # Nobody but root has groups that he could give up.
    *([Fault(49, "KeepsGroups", keeps_groups, ("groups",))] if os.geteuid() == 0 else []),
    _fault(54, HostOfAnother, bubblewrap_python, "own_host", "only_own"),
    _fault(55, TellsAll, bubblewrap_python, "nothing_more"),
    _fault(56, Silent, bubblewrap_native, "system_call"),
    _fault(56, Silent, bubblewrap_python, "violation_noted"),
    _fault(56, Alarmed, bubblewrap_python, "ordinary", "failed_noted"),
    _fault(57, OfTheOneBefore, bubblewrap_native, "own_result", "own_output"),
    _fault(57, NeverBusy, bubblewrap_native, "busy"),
    _fault(58, LeavesAProcess, bubblewrap_native, "processes", "left behind"),
    _fault(58, LeavesADescriptor, bubblewrap_native, "descriptors"),
    _fault(58, LeavesAFolder, bubblewrap_native, "left behind"),
    Fault(59, "OneFolderForAll", one_folder_for_all, ("fresh",)),
    _fault(59, UsedAgain, bubblewrap_python, "thrown_away"),
    _fault(59, UsedAgain, landlock_native, "thrown_away"),
    _fault(60, Free, bubblewrap_native, "cpu", "memory", "output", "seconds", "killed_memory"),
)
"""Besides what a program does without any wall (`WITHOUT_A_WALL`)."""

WITHOUT_A_WALL: Final[Mapping[int, tuple[str, ...]]] = {
    11: ("stopped",),
    12: ("mapped", "shared", "held"),
    13: ("huge inside",),
    14: ("together",),
    15: ("bounded",),
    16: ("bounded",),
    17: (
        *("work_large", "work_small", "work_sparse", "temporary_large", "temporary_small"),
        *("temporary_sparse", "elsewhere"),
    ),
    18: ("bounded",),
    21: ("survivors", "left behind"),
    23: ("survivors", "left behind"),
    25: ("survivors",),
    26: ("survivors", "left behind"),
    27: ("capped", "marked", "counted"),
    37: ("refused", "untouched", "unseen"),
    38: (
        *("open", "map", "list", "import", "passwords", "home", "write", "create", "existence", "unchanged"),
        "host_folders",
    ),
    39: ("shipped_to_file", "shipped_to_folder", "dots", "made_to_file", "made_to_folder", "unchanged"),
    40: ("unchanged", "nothing_made", "own_bundle", "own_packages"),
    41: ("unchanged", "folder"),
    42: ("refused", "outer"),
    44: ("other_processes", "/sys"),
    46: ("clean", "words"),
    47: ("tcp", "udp", "listen", "sees_tcp", "sees_sockets", "reached", "granted_reached", "plain"),
    48: ("abstract_stream", "abstract_datagram", "path_stream", "path_by_a_pair"),
    49: ("no_new_privileges", "chmod_user", "open_group", "set_id"),
    50: ("stopped", "told", "clone3"),
    51: ("signal", "see", "look", "read", "write", "granted"),
    52: ("terminal",),
    53: (
        *("evaluated", "by_its_frames", "by_foreign_functions", "by_a_shell", "by_the_loader", "from_memory"),
        "by_its_own_interpreter",
    ),
    56: ("system_call",),
}
"""By number: what, among other things, is broken where a program is simply started."""
