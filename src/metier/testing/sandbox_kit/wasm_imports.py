"""What a WASM module asks for that has no business here: names that some runtime or toolchain really offers.

A name nobody ever offered would be refused by everybody and show nothing. With each of these the same module starts
where the name is there (the kit's own tests see to that), so when it does not start, that is because of the name.
"""

from typing import Final, NamedTuple


class Name(NamedTuple):
    """An import: from where, which, and what it takes and gives, a letter each (`i` is i32, `I` is i64)."""

    place: str
    name: str
    takes: str
    gives: str = "i"


_THREAD: Final = Name("wasi", "thread-spawn", "i")
_SOCKETS: Final = (
    Name("wasi_snapshot_preview1", "sock_open", "iii"),
    Name("wasix_32v1", "sock_connect", "ii"),
    Name("wasi_experimental_http", "req", "iiiiiiiiiii"),
)
_PROCESSES: Final = (Name("wasix_32v1", "proc_fork", "ii"), Name("env", "__syscall_fork", ""))
_CODE: Final = (Name("env", "emscripten_run_script", "i", ""), Name("wasix_32v1", "proc_exec", "iiii", ""))
_SIGNALS: Final = (Name("wasix_32v1", "proc_signal", "ii"), Name("env", "kill", "ii"))
ASKED_FOR: Final[dict[str, tuple[Name, ...]]] = {
    "network": _SOCKETS,
    "unix_sockets": _SOCKETS,
    "by_grant": _SOCKETS,
    **dict.fromkeys(("daemons", "deaf", "forks", "children_memory"), _PROCESSES),
    **dict.fromkeys(("threads", "ask_late", "ask_through_others"), (_THREAD,)),
    **dict.fromkeys(("made_code", "shipped"), _CODE),
    **dict.fromkeys(("stop", "crash", "others"), _SIGNALS),
    "terminal": (Name("wasix_32v1", "tty_get", "i"), Name("wasix_32v1", "tty_set", "i")),
    "trace": (Name("env", "__syscall_ptrace", "iiii"),),
    "privilege": (Name("env", "setuid", "i"), Name("wasi_snapshot_preview1", "proc_setuid", "i")),
    "set_id": (Name("env", "__syscall_chmod", "ii"), Name("env", "__syscall_fchmodat2", "iiii")),
    "core_limit": (Name("env", "__syscall_prlimit64", "iiii"),),
    "forge": (Name("wasix_32v1", "fd_dup", "ii"), Name("wasix_32v1", "fd_pipe", "ii")),
    "read_frames": (Name("wasix_32v1", "fd_pipe", "ii"),),
    **dict.fromkeys(("system_calls", "other_word"), (Name("env", "syscall", "ii"),)),
}
"""By act. Each is tried in a module of its own."""
_TYPES: Final = {"i": "i32", "I": "i64"}


def text_for(asked: Name) -> str:
    """A module that does nothing but ask for it."""
    takes = " ".join(_TYPES[each] for each in asked.takes)
    gives = " ".join(_TYPES[each] for each in asked.gives)
    kind = f"(func (param {takes}) (result {gives}))"
    start = '(memory (export "memory") 1) (func (export "_start"))'
    return f'(module (import "{asked.place}" "{asked.name}" {kind}) {start})'
