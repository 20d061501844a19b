"""Landlock, the filter of system calls and the loss of identity, each tried in a process of its own: they are for ever.

Every act that must fail is also done without the locks, where it must succeed.
"""

import errno
import json
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from metier.sandbox.guest import confine, syscall_filter

GUEST = str(Path(confine.__file__).parent)
SYSTEM = [path for path in ("/usr", "/bin", "/lib", "/lib64") if os.path.exists(path)]
ALLOW_EVERYTHING = struct.pack("=HBBI", 6, 0, 0, 0x7FFF0000)

ROOT = os.geteuid() == 0
pytestmark = [
    pytest.mark.skipif(not syscall_filter.SUPPORTED, reason="confinement is written for Linux on x86-64"),
    pytest.mark.skipif(confine.landlock_abi() < 6, reason="needs a kernel with Landlock ABI 6"),
]
only_root = pytest.mark.skipif(not ROOT, reason="only user 0 has an identity to drop or a control to show")

PRELUDE = """
import sys
sys.path.insert(0, {guest!r})
import confine, ctypes, errno, fcntl, json, mmap, os, resource, select, signal, socket, struct, subprocess, syscall_filter
import termios
import threading

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long

def raw(number, *arguments):
    "The error a system call ends with, or `ok`."
    passed = [a if isinstance(a, bytes) else ctypes.c_long(a) for a in arguments]
    result = libc.syscall(ctypes.c_long(number), *passed)
    return "ok" if result >= 0 else errno.errorcode[ctypes.get_errno()]

def call(name, *arguments):
    return raw(syscall_filter.NUMBERS[name], *arguments)

def attempt(act, *arguments):
    try:
        act(*arguments)
    except OSError as error:
        return errno.errorcode[error.errno]
    return "ok"

def write(path, text="x"):
    with open(path, "w") as file:
        file.write(text)

def read(path):
    with open(path) as file:
        return file.read()

given = json.loads(sys.argv[1])
"""
LOCK = """
rules = confine.ruleset(read=given["read"], execute=given["execute"], write=given["write"]) if given["rules"] else -1
bpf = bytes.fromhex(given["filter"])
assert confine.restrict(rules, bpf, notify=False) == -1
"""


def run(
    body: str,
    *,
    locked: bool = True,
    rules: bool = True,
    filter: bytes | None = None,
    read: tuple[str, ...] = (),
    write: tuple[str, ...] = (),
    **extra: object,
) -> Any:
    """What `body` leaves in `result`. `given` holds the extra arguments there."""
    chosen = (
        syscall_filter.program(notify=False, sockets="none", no_metadata=True) if filter is None else filter
    )
    given = {
        "read": ["/dev/null", "/dev/urandom", *read],
        "execute": SYSTEM,
        "write": list(write),
        "rules": rules,
        **extra,
    }
    code = PRELUDE.format(guest=GUEST) + (LOCK if locked else "") + body + "\nprint(json.dumps(result))"
    ended = subprocess.run(
        [sys.executable, "-I", "-c", code, json.dumps(given | {"filter": chosen.hex()})],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin"},
        timeout=30,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout.splitlines()[-1])


@pytest.fixture
def inside(tmp_path: Path) -> Path:
    folder = tmp_path / "inside"
    folder.mkdir()
    (folder / "own").write_text("own")
    return folder


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret").write_text("secret")
    return folder


# --- Landlock ---------------------------------------------------------------------------------------------------------


def test_nothing_outside_can_be_read_listed_or_written(inside: Path, outside: Path) -> None:
    body = """
outside = given["outside"]
result = [
    attempt(read, outside + "/secret"), attempt(os.listdir, outside), attempt(write, outside + "/new"),
    attempt(os.truncate, outside + "/secret", 0), attempt(os.mkdir, outside + "/folder"),
    attempt(os.rename, outside + "/secret", outside + "/moved"), attempt(os.unlink, outside + "/moved"),
    attempt(read, "/proc/%d/environ" % os.getppid()),
]"""
    refused = run(body, write=(str(inside),), outside=str(outside))
    assert refused[:-2] == ["EACCES"] * 6
    assert refused[-2] in ("EACCES", "ENOENT")  # the file it would remove was never there
    assert refused[-1] in ("EACCES", "EPERM")
    assert (outside / "secret").read_text() == "secret"
    assert [path.name for path in outside.iterdir()] == ["secret"]
    assert run(body, locked=False, outside=str(outside)) == ["ok"] * 8


def test_a_folder_to_write_in_is_read_written_and_emptied_as_usual(inside: Path) -> None:
    body = """
os.chdir(given["inside"])
write("a", "text")
os.mkdir("folder")
os.rename("a", "folder/b")
os.symlink("folder/b", "link")
os.link("folder/b", "second")
os.mkfifo("pipe")
result = [read("link"), sorted(os.listdir("."))]
os.truncate("second", 1)
result.append(read("second"))
"""
    assert run(body, write=(str(inside),), inside=str(inside)) == [
        "text",
        ["folder", "link", "own", "pipe", "second"],
        "t",
    ]


def test_a_folder_to_read_refuses_every_change(inside: Path) -> None:
    body = """
os.chdir(given["inside"])
result = [read("own"), os.listdir("."), attempt(write, "own"), attempt(write, "new"), attempt(os.unlink, "own"),
          attempt(os.mkdir, "folder"), attempt(os.symlink, "own", "link"), attempt(os.link, "own", "second")]
"""
    refused = run(body, read=(str(inside),), inside=str(inside))
    assert refused == ["own", ["own"], *["EACCES"] * 6]


def test_links_lead_nowhere(inside: Path, outside: Path) -> None:
    (inside / "shipped").symlink_to(outside / "secret")
    (inside / "up").symlink_to(outside)
    body = """
os.chdir(given["inside"])
os.symlink(given["outside"] + "/secret", "made")
os.symlink(given["outside"] + "/new", "ahead")
result = [attempt(read, "shipped"), attempt(read, "made"), attempt(read, "up/secret"), attempt(os.listdir, "up/"),
          attempt(write, "ahead"), attempt(read, "../outside/secret"),
          attempt(os.link, given["outside"] + "/secret", "hard")]
"""
    refused = run(body, write=(str(inside),), inside=str(inside), outside=str(outside))
    assert refused[:-1] == ["EACCES"] * 6
    assert refused[-1] in ("EACCES", "EXDEV")
    (inside / "made").unlink()
    (inside / "ahead").unlink()
    assert run(body, locked=False, inside=str(inside), outside=str(outside)) == ["ok"] * 7


def test_a_file_cannot_be_moved_or_linked_to_where_more_is_allowed(inside: Path, outside: Path) -> None:
    body = """
result = [attempt(os.link, given["outside"] + "/secret", given["inside"] + "/hard"),
          attempt(os.rename, given["outside"] + "/secret", given["inside"] + "/moved")]
"""
    folders = {"inside": str(inside), "outside": str(outside)}
    refused = run(body, read=(str(outside),), write=(str(inside),), **folders)
    assert all(each in ("EACCES", "EXDEV") for each in refused)
    assert run(body, locked=False, **folders) == ["ok", "ok"]


def test_between_two_folders_to_write_in_files_move_freely(inside: Path, outside: Path) -> None:
    body = 'result = attempt(os.rename, given["outside"] + "/secret", given["inside"] + "/moved")'
    writable = (str(inside), str(outside))
    assert run(body, write=writable, inside=str(inside), outside=str(outside)) == "ok"
    assert (inside / "moved").read_text() == "secret"


def test_what_can_be_written_cannot_be_executed(inside: Path) -> None:
    program = inside / "program"
    shutil.copy("/bin/true", program)
    body = 'result = attempt(subprocess.run, [given["program"]])'
    assert run(body, write=(str(inside),), program=str(program)) == "EACCES"
    assert run(body, locked=False, program=str(program)) == "ok"


def test_a_device_cannot_be_made_even_by_root(inside: Path) -> None:
    # An overlay's whiteout is a device that needs no privilege, so this holds for everybody.
    body = 'result = attempt(os.mknod, given["inside"] + "/zero", 0o20600, 0)'
    assert run(body, write=(str(inside),), inside=str(inside)) == "EACCES"
    assert run(body, locked=False, inside=str(inside)) == "ok"


def test_a_single_file_can_be_given_for_reading_or_writing(inside: Path) -> None:
    (inside / "other").write_text("other")
    body = """
result = [attempt(read, given["inside"] + "/own"), attempt(write, given["inside"] + "/own"),
          attempt(read, given["inside"] + "/other")]
"""
    own = str(inside / "own")
    assert run(body, read=(own,), inside=str(inside)) == ["ok", "EACCES", "EACCES"]
    assert run(body, write=(own,), inside=str(inside)) == ["ok", "ok", "EACCES"]


def test_a_path_can_be_given_as_a_descriptor_which_stays_open(inside: Path, outside: Path) -> None:
    body = """
folder = os.open(given["inside"], os.O_PATH)
os.rename(given["inside"], given["inside"] + "-elsewhere")
os.symlink(given["outside"], given["inside"])
rules = confine.ruleset(read=[folder], execute=[], write=[])
assert not os.get_inheritable(rules)
confine.restrict(rules, bytes.fromhex(given["filter"]), notify=False)
os.fstat(folder)
result = [attempt(read, given["inside"] + "-elsewhere/own"), attempt(read, given["inside"] + "/secret")]
"""
    assert run(body, locked=False, inside=str(inside), outside=str(outside)) == ["ok", "EACCES"]


def test_a_missing_path_is_named_and_nothing_stays_open(tmp_path: Path) -> None:
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(FileNotFoundError) as missing:
        confine.ruleset(read=["/usr"], execute=[], write=[str(tmp_path / "nowhere")])
    assert missing.value.filename == str(tmp_path / "nowhere")
    with pytest.raises(OSError, match="Bad file descriptor"):
        confine.ruleset(read=[10_000], execute=[], write=[])
    assert set(os.listdir("/proc/self/fd")) == before


def test_a_process_outside_cannot_be_signalled() -> None:
    body = """
child = os.fork()
if child == 0:
    signal.pause()
result = [attempt(os.kill, os.getppid(), 0), attempt(os.kill, child, signal.SIGKILL)]
os.waitpid(child, 0)
"""
    assert run(body) == ["EPERM", "ok"]
    assert run(body, locked=False) == ["ok", "ok"]


@pytest.fixture
def abstract_name() -> Iterator[str]:
    name = f"metier-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(f"\0{name}")
        listening.listen()
        yield name


def test_lnx_11_an_abstract_socket_cannot_be_reached_even_where_sockets_can_be_made(
    abstract_name: str,
) -> None:
    body = 'result = attempt(socket.socket(socket.AF_UNIX).connect, chr(0) + given["name"])'
    assert run(body, filter=ALLOW_EVERYTHING, name=abstract_name) == "EPERM"
    assert run(body, locked=False, name=abstract_name) == "ok"


def test_tcp_is_open_only_to_the_ports_given() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        ports = [one.getsockname()[1], two.getsockname()[1]]
        body = """
rules = confine.ruleset(read=[], execute=[], write=[], connect=given["ports"][:1])
confine.restrict(rules, bytes.fromhex(given["filter"]), notify=False)
result = [attempt(socket.socket().connect, ("127.0.0.1", port)) for port in given["ports"]]
result.append(attempt(socket.socket().bind, ("127.0.0.1", 0)))
"""
        inet = syscall_filter.program(notify=False, sockets="inet", no_metadata=True)
        assert run(body, locked=False, filter=inet, ports=ports) == ["ok", "EACCES", "EACCES"]


# --- The filter -------------------------------------------------------------------------------------------------------


def test_lnx_09_the_numbers_agree_with_the_kernel_headers() -> None:
    header = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
    if not header.exists():
        pytest.skip("the kernel headers are not installed")
    known = dict(re.findall(r"#define __NR_(\w+) (\d+)", header.read_text()))
    ours = {name: str(syscall_filter.NUMBERS[name]) for name in known if name in syscall_filter.NUMBERS}
    assert ours == {name: number for name, number in known.items() if int(number) <= 470}


# -1 is neither a descriptor nor an address nor a set of flags, so nothing happens where nothing is refused either.
# vhangup has no argument to be wrong.
FORBIDDEN = sorted(syscall_filter.VIOLATIONS)
HARMLESS_WHEN_TRIED = [name for name in FORBIDDEN if name != "vhangup"]


def test_lnx_09_every_forbidden_call_is_refused_and_the_guest_goes_on() -> None:
    body = 'result = {name: call(name, *[-1] * 6) for name in given["names"]}'
    assert run(body, names=FORBIDDEN) == dict.fromkeys(FORBIDDEN, "EPERM")


@only_root
def test_lnx_09_it_is_the_filter_that_refuses_them() -> None:
    body = 'result = {name: call(name, *[-1] * 6) for name in given["names"]}'
    assert "EPERM" not in run(body, locked=False, names=HARMLESS_WHEN_TRIED).values()


WATCHED = """
listener, answers = [], []
ready = threading.Event()

def guest():
    listener.append(confine.restrict(-1, bytes.fromhex(given["filter"]), notify=True))
    ready.set()
    for name, arguments in given["calls"]:
        answers.append(call(name, *arguments))

thread = threading.Thread(target=guest)
thread.start()
ready.wait()
poll = select.poll()
poll.register(listener[0], select.POLLIN)
seen = []
while True:
    events = dict(poll.poll(20_000))
    if events.get(listener[0], 0) & select.POLLIN:
        notice = confine.receive(listener[0])
        seen.append([notice.name, notice.violation, notice.args[0], notice.pid == os.getpid()])
        confine.refuse(listener[0], notice, notice.error)
    else:
        break
thread.join()
result = [seen, answers, os.get_inheritable(listener[0]), confine.receive(listener[0])]
"""


def watched(calls: list[tuple[str, list[int]]], sockets: Any = "none") -> list[Any]:
    watching = syscall_filter.program(notify=True, sockets=sockets, no_metadata=False)
    return run(WATCHED, locked=False, filter=watching, calls=calls)


def test_lnx_09_every_forbidden_call_is_told_with_its_name() -> None:
    calls = [(name, [7, 0, 0, 0]) for name in FORBIDDEN]
    seen, answers, inheritable, after = watched(calls)
    assert [(name, violation, first) for name, violation, first, _ in seen] == [
        (name, True, 7) for name in FORBIDDEN
    ]
    assert answers == ["EPERM"] * len(FORBIDDEN)
    assert not inheritable
    assert after is None


def test_lnx_09_a_namespace_by_clone_is_told_and_an_ordinary_error_is_not() -> None:
    seen, answers, *_ = watched([("clone", [0x10000000]), ("close", [-1]), ("kcmp", [0]), ("clone3", [0, 0])])
    assert [(name, violation) for name, violation, *_ in seen] == [("clone", True)]
    assert answers == ["EPERM", "EBADF", "EPERM", "ENOSYS"]


def test_a_socket_is_a_denial_and_no_violation() -> None:
    seen, answers, *_ = watched([("socket", [2, 1, 0]), ("socket", [16, 3, 0])])
    assert [(name, violation, family) for name, violation, family, _ in seen] == [
        ("socket", False, 2),
        ("socket", False, 16),
    ]
    assert answers == ["EACCES", "EACCES"]


def test_lnx_09_a_ring_that_is_asked_for_is_denied_and_one_that_is_used_is_a_violation() -> None:
    """Node asks for one at every start, and does without. None can be used that was not got by another way."""
    seen, answers, *_ = watched(
        [("io_uring_setup", [8, 0]), ("io_uring_enter", [7]), ("io_uring_register", [7])]
    )
    assert [(name, violation) for name, violation, *_ in seen] == [
        ("io_uring_setup", False),
        ("io_uring_enter", True),
        ("io_uring_register", True),
    ]
    assert answers == ["ENOSYS", "EPERM", "EPERM"]
    assert run('result = call("io_uring_setup", 8, 0)') == "ENOSYS"
    assert run('result = call("io_uring_setup", 0, 0)', locked=False) in ("EINVAL", "EFAULT", "EPERM")


def test_without_a_listener_the_filter_asks_nobody() -> None:
    def verdicts(code: bytes) -> set[int]:
        return {k & 0xFFFF0000 for operation, _, _, k in struct.iter_unpack("=HBBI", code) if operation == 6}

    for sockets in ("none", "inet"):
        for no_metadata in (False, True):
            quiet = syscall_filter.program(notify=False, sockets=sockets, no_metadata=no_metadata)
            asking = syscall_filter.program(notify=True, sockets=sockets, no_metadata=no_metadata)
            assert 0x7FC00000 not in verdicts(quiet)
            assert 0x7FC00000 in verdicts(asking)


def test_lnx_09_a_number_nobody_knows_is_no_system_call() -> None:
    body = "result = [raw(number) for number in (337, 400, 471, 999, 0x3FFFFFFF)]"
    assert run(body) == ["ENOSYS"] * 5


def test_lnx_09_the_calls_of_other_machine_words_end_the_process() -> None:
    body = """
child = os.fork()
if child == 0:
    raw(0x40000000 + syscall_filter.NUMBERS["getpid"])
    os._exit(0)
result = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
"""
    assert run(body) == -signal.SIGSYS
    assert run(body, locked=False) == 0


def test_lnx_09_clone_makes_processes_and_threads_but_no_namespace() -> None:
    body = """
def cloned(flags):
    pid = libc.syscall(ctypes.c_long(56), ctypes.c_long(flags | signal.SIGCHLD), *[ctypes.c_long(0)] * 4)
    if pid == 0:
        os._exit(0)
    if pid < 0:
        return errno.errorcode[ctypes.get_errno()]
    return "ok"

thread = threading.Thread(target=lambda: None)
thread.start()
thread.join()
kinds = [0x20000, 0x02000000, 0x04000000, 0x08000000, 0x20000000, 0x40000000, 0x10000000]
result = [cloned(0), [cloned(kind) for kind in kinds], cloned(0x8000), call("clone3", 0, 0)]
"""
    assert run(body) == ["ok", ["EPERM"] * 7, "EPERM", "ENOSYS"]


@only_root
def test_lnx_09_namespaces_by_clone_work_without_the_filter() -> None:
    body = """
pid = libc.syscall(ctypes.c_long(56), ctypes.c_long(0x04000000 | signal.SIGCHLD), *[ctypes.c_long(0)] * 4)
if pid == 0:
    os._exit(0)
result = pid > 0
"""
    assert run(body, locked=False)


FAMILIES = {"unix": 1, "inet": 2, "inet6": 10, "netlink": 16, "packet": 17, "alg": 38, "vsock": 40}
SOCKETS = """
def made(family, kind, protocol=0):
    return attempt(lambda: socket.socket(family, kind, protocol).close())

result = {
    "stream": {name: made(family, 1) for name, family in given["families"].items()},
    "flags": made(2, 1 | 0x80000 | 0x800),
    "datagram": [made(2, 2), made(10, 2)],
    "raw": [made(2, 3, 1), made(16, 3)],
    "mptcp": made(2, 1, 262),
    "tcp": made(2, 1, 6),
    "pair": attempt(lambda: [end.close() for end in socket.socketpair()]),
    "datagram pair": attempt(lambda: [end.close() for end in socket.socketpair(1, 2)]),
}
"""


def test_without_a_network_there_is_no_socket_but_a_pair() -> None:
    got = run(SOCKETS, families=FAMILIES)
    assert got.pop("pair") == "ok"
    assert got.pop("stream") == dict.fromkeys(FAMILIES, "EACCES")
    refused = "EACCES"
    alone = {"flags": refused, "mptcp": refused, "tcp": refused, "datagram pair": refused}
    assert got == alone | {"datagram": [refused] * 2, "raw": [refused] * 2}


def test_with_a_network_there_are_tcp_sockets_and_nothing_else() -> None:
    inet = syscall_filter.program(notify=False, sockets="inet", no_metadata=True)
    got = run(SOCKETS, filter=inet, families=FAMILIES)
    assert got.pop("stream") == dict.fromkeys(FAMILIES, "EACCES") | {"inet": "ok", "inet6": "ok"}
    assert got == {
        "flags": "ok",
        "datagram": ["EACCES"] * 2,
        "raw": ["EACCES"] * 2,
        "mptcp": "EACCES",
        "tcp": "ok",
        "pair": "ok",
        "datagram pair": "EACCES",
    }


def test_without_the_filter_sockets_can_be_made() -> None:
    got = run(SOCKETS, locked=False, families={"unix": 1, "inet": 2, "netlink": 16})
    assert got["datagram"] == ["ok", "ok"]
    assert (got["datagram pair"], got["tcp"]) == ("ok", "ok")


def test_lnx_11_a_pair_cannot_speak_to_a_socket_that_has_a_path(tmp_path: Path) -> None:
    body = """
def speak(kind):
    pair = socket.socketpair(socket.AF_UNIX, kind)
    for end in pair:
        end.sendto(b"hello", given["path"])

result = [attempt(speak, socket.SOCK_DGRAM), attempt(speak, socket.SOCK_STREAM),
          attempt(lambda: socket.socketpair()[0].connect(given["path"])),
          attempt(lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"hello", given["path"]))]
"""
    path = str(tmp_path / "socket")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(path)
        listening.setblocking(False)
        assert run(body, read=(str(tmp_path),), path=path) == ["EACCES", "EISCONN", "EACCES", "EACCES"]
        with pytest.raises(BlockingIOError):
            listening.recv(10)
        assert run(body, locked=False, path=path)[0] == "ok"
        assert listening.recv(10) == b"hello"


def test_nothing_can_be_typed_into_a_terminal_and_no_flags_set_on_a_file(inside: Path) -> None:
    body = """
own = os.open(given["inside"] + "/own", os.O_RDONLY)
pair = os.openpty() if given["terminal"] else (own, own)
result = [attempt(fcntl.ioctl, pair[1], request, b"x") for request in (0x5412, 0x541C, 0x5423)]
result += [attempt(fcntl.ioctl, own, request, bytes(8)) for request in (0x40086602, 0x401C5820, 0x40806685)]
result.append(attempt(fcntl.ioctl, own, termios.FIONREAD, bytes(4)))
"""
    assert run(body, read=(str(inside),), inside=str(inside), terminal=False) == ["ENOTTY"] * 6 + ["ok"]
    bare = run(body, locked=False, inside=str(inside), terminal=True)
    assert "ENOTTY" not in (bare[3], bare[6])


def test_a_request_to_a_device_passes_only_if_it_is_known(inside: Path) -> None:
    body = """
file = os.open(given["inside"] + "/own", os.O_RDWR)
ends = os.pipe()
def asked(descriptor, request, argument=bytes(64)):
    return attempt(fcntl.ioctl, descriptor, request, argument)
def upper(request):  # the kernel looks at the lower half only
    return call("ioctl", file, request | 1 << 32, bytes(64))
reserve = struct.pack("hhqqII16x", 0, 0, 0, 1 << 20, 0, 0)
result = {
    "reserve": [asked(file, 0x40305828, reserve), asked(file, 0x4030582A, reserve), asked(file, 0x40305839, reserve)],
    "upper half": [upper(0x40305828), upper(0x40086602)],
    "size": os.fstat(file).st_blocks,
    "clone": [asked(file, 0x40049409), asked(file, 0x4020940D), asked(file, 0xC0189436)],
    "not listed": asked(os.open("/proc/self/ns/user", os.O_RDONLY), 0xB703, 0),
    "known": [asked(ends[0], request) for request in (0x541B, 0x5421, 0x5450, 0x5451)] + [asked(file, 0x2)],
    "terminal": [os.isatty(0), attempt(os.get_terminal_size, 0), os.get_blocking(ends[0])],
}
"""
    locked = run(body, write=(str(inside),), inside=str(inside), rules=False)
    assert locked["reserve"] == ["ENOTTY"] * 3
    assert locked["upper half"] == ["ENOTTY"] * 2
    assert locked["size"] <= 8, "nothing was reserved"
    assert {getattr(errno, each) for each in locked["clone"]} == {errno.EOPNOTSUPP}
    assert locked["not listed"] == "ENOTTY"
    assert locked["known"] == ["ok"] * 5
    assert locked["terminal"] == [False, "ENOTTY", True]
    bare = run(body, locked=False, inside=str(inside))
    assert bare["reserve"][0] == "ok"
    assert bare["size"] >= 1 << 20 >> 9, "out here it can be reserved"
    assert bare["not listed"] == "ok"
    assert bare["terminal"] == locked["terminal"]


def test_a_file_that_can_be_read_cannot_be_leased_or_watched(inside: Path) -> None:
    body = """
file, folder = os.open(given["inside"] + "/own", os.O_RDONLY), os.open(given["inside"], os.O_RDONLY)
signal.signal(signal.SIGIO, signal.SIG_IGN)
result = {
    "lease": attempt(fcntl.fcntl, file, fcntl.F_SETLEASE, fcntl.F_WRLCK),
    "upper half": call("fcntl", file, 1024 | 1 << 32, fcntl.F_RDLCK),
    "notice": attempt(fcntl.fcntl, folder, fcntl.F_NOTIFY, fcntl.DN_CREATE),
    "delegation": attempt(fcntl.fcntl, file, 1040, bytes(16)),
    "ordinary": [attempt(fcntl.fcntl, file, command) for command in (fcntl.F_GETFD, fcntl.F_GETFL)]
    + [attempt(fcntl.flock, file, fcntl.LOCK_SH), attempt(fcntl.lockf, file, fcntl.LOCK_SH)],
}
"""
    locked = run(body, read=(str(inside),), inside=str(inside))
    assert locked.pop("ordinary") == ["ok"] * 4
    assert set(locked.values()) == {"EINVAL"}
    bare = run(body, locked=False, inside=str(inside))
    assert (bare["lease"], bare["notice"]) == ("ok", "ok")


def test_no_page_is_left_in_a_pipe_where_nobody_counts_it() -> None:
    body = """
ends, page = os.pipe(), ctypes.create_string_buffer(b"x", 4096)
result = call("vmsplice", ends[1], struct.pack("@QQ", ctypes.addressof(page), 1), 1, 0)
"""
    assert run(body) == "ENOSYS"
    assert run(body, locked=False) == "ok"


METADATA = """
path = given["outside"] + "/secret"
before = os.stat(path)
result = [attempt(os.chmod, path, 0o777), attempt(os.utime, path, (1, 1)), attempt(os.chown, path, -1, -1),
          attempt(os.setxattr, path, "user.metier", b"x"), attempt(os.removexattr, path, "user.metier"),
          call("fchmodat2", -100, path.encode(), 0o777, 0)]
after = os.stat(path)
result.append((before.st_mode, before.st_mtime_ns, before.st_ctime_ns)
              == (after.st_mode, after.st_mtime_ns, after.st_ctime_ns))
"""


def test_metadata_outside_stays_as_it_is(inside: Path, outside: Path) -> None:
    assert run(METADATA, write=(str(inside),), outside=str(outside)) == [
        *("ok", "ok", "EPERM", "EPERM", "EPERM", "ok"),
        True,
    ]
    bare = run(METADATA, locked=False, outside=str(outside))
    assert bare[:3] == ["ok"] * 3
    assert bare[-1] is False


def test_where_mounts_guard_the_outside_metadata_can_be_changed(inside: Path) -> None:
    body = """
path = given["inside"] + "/own"
os.chmod(path, 0o640)
os.utime(path, (1, 1))
result = [os.stat(path).st_mode & 0o777, int(os.stat(path).st_mtime)]
"""
    mounted = syscall_filter.program(notify=False, sockets="none", no_metadata=False)
    assert run(body, filter=mounted, write=(str(inside),), inside=str(inside)) == [0o640, 1]


@pytest.mark.parametrize("no_metadata", [False, True])
def test_no_folder_can_be_watched_behind_either_wall(no_metadata: bool) -> None:
    body = 'result = [call("inotify_init1", 0), call("inotify_init")]'
    behind = syscall_filter.program(notify=False, sockets="none", no_metadata=no_metadata)
    assert run(body, filter=behind) == ["ENOSYS"] * 2
    assert run(body, locked=False) == ["ok"] * 2


def test_nothing_is_kept_in_queues_between_two_runs() -> None:
    body = """
result = [call("shmget", 0, 4096, 0o1600), call("semget", 0, 1, 0o1600), call("msgget", 0, 0o1600),
          call("mq_open", b"metier-test", 0o100, 0o600, 0)]
"""
    assert run(body) == ["ENOSYS"] * 4
    control = """
made = libc.shmget(0, 4096, 0o1600)
result = made >= 0
libc.shmctl(made, 0, None)
"""
    assert run(control, locked=False)


def test_memory_that_no_limit_counts_cannot_be_had() -> None:
    body = """
MiB = 1 << 20
resource.setrlimit(resource.RLIMIT_DATA, (64 * MiB, 64 * MiB))
libc.mmap.restype = libc.mremap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
failed = ctypes.c_void_p(-1).value
def mapped(flags, size=200 * MiB, at=0x100000000000):
    return "ENOMEM" if libc.mmap(at, size, 3, flags, -1, 0) == failed else "ok"
def grown(address, size):
    return "ENOMEM" if libc.mremap(address, 4096, size, 1) == failed else "ok"
for line in maps.splitlines():
    if line.endswith("[stack]"):
        here = int(line.split("-")[0], 16)
result = {
    "private": mapped(0x22), "shared": mapped(0x21), "growing down": mapped(0x122), "small": mapped(0x22, MiB),
    "stack": grown(here, 200 * MiB), "heap": grown(0x100000000000, MiB), "secret": call("memfd_secret", 0) != "ok",
}
"""
    before = "maps = read('/proc/self/maps')\n"  # which the lock closes
    refused = run(before + LOCK + body, locked=False)
    assert refused == {
        **dict.fromkeys(("private", "shared", "growing down", "stack"), "ENOMEM"),
        **dict.fromkeys(("small", "heap"), "ok"),
        "secret": True,
    }
    bare = run(before + body, locked=False)
    assert (bare["private"], bare["shared"], bare["growing down"], bare["stack"]) == (
        "ENOMEM",
        "ok",
        "ok",
        "ok",
    )


def test_limits_and_priorities_of_other_processes_are_out_of_reach() -> None:
    body = """
parent = os.getppid()
def both(act):
    return [act(parent), act(0)]
def limit(pid):
    return attempt(lambda: resource.prlimit(pid, resource.RLIMIT_CORE, resource.prlimit(0, resource.RLIMIT_CORE)))
cpus = os.sched_getaffinity(0)
result = [both(limit), both(lambda pid: attempt(os.sched_setaffinity, pid, cpus)),
          both(lambda pid: attempt(os.setpriority, os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, 0))),
          attempt(os.setpriority, os.PRIO_USER, 0, os.getpriority(os.PRIO_PROCESS, 0))]
"""
    assert run(body) == [["EPERM", "ok"], ["EPERM", "ok"], ["EPERM", "ok"], "EPERM"]
    assert run(body, locked=False) == [["ok", "ok"]] * 3 + ["ok"]


NO_NEW_PRIVILEGES = "libc.prctl(38, 1, 0, 0, 0)\n"
GUESTS_OWN = """
def load(verdict, flags):
    code = ctypes.create_string_buffer(struct.pack("=HBBI", 6, 0, 0, verdict))
    return call("seccomp", 1, flags, struct.pack("@HxxxxxxQ", 1, ctypes.addressof(code)))
"""


def test_lnx_09_a_filter_of_the_guest_cannot_widen_ours() -> None:
    wider = GUESTS_OWN + 'result = [load(0x7FFF0000, 0), call("unshare", 0)]'
    assert run(wider) == ["ok", "EPERM"]
    assert run(NO_NEW_PRIVILEGES + wider, locked=False) == ["ok", "ok"]
    asking = GUESTS_OWN + 'result = [load(0x7FFF0000, 8), load(0x7FC00000, 8), call("unshare", 0)]'
    assert run(asking) == ["EBUSY", "EBUSY", "EPERM"]


def test_lnx_09_a_guest_gets_no_listener_once_ours_is_closed() -> None:
    """Of two listeners the kernel asks the later one, which could let a call pass."""
    body = (
        GUESTS_OWN
        + """
os.close(confine.restrict(-1, bytes.fromhex(given["filter"]), notify=True))
result = [load(0x7FC00000, 8), load(0x7FFF0000, 0), call("unshare", 0)]
"""
    )
    watching = syscall_filter.program(notify=True, sockets="none", no_metadata=False)
    assert run(body, locked=False, filter=watching) == ["EBUSY", "ok", "ENOSYS"]
    control = GUESTS_OWN + "result = load(0x7FFF0000, 8)"
    assert run(NO_NEW_PRIVILEGES + control, locked=False) == "ok"


def test_only_the_calling_thread_is_restricted(outside: Path) -> None:
    body = """
def guest():
    confine.restrict(confine.ruleset(read=[], execute=[], write=[]), bytes.fromhex(given["filter"]), notify=False)
    inside.append([attempt(read, given["outside"] + "/secret"), call("unshare", 0)])
inside = []
thread = threading.Thread(target=guest)
thread.start()
thread.join()
result = [*inside, [attempt(read, given["outside"] + "/secret"), call("unshare", 0)]]
"""
    assert run(body, locked=False, outside=str(outside)) == [["EACCES", "EPERM"], ["ok", "ok"]]


def test_a_notice_of_a_process_that_died_is_no_error() -> None:
    body = """
parent, child = socket.socketpair()
pid = os.fork()
if pid == 0:
    listener = confine.restrict(-1, bytes.fromhex(given["filter"]), notify=True)
    socket.send_fds(child, [b"l"], [listener])
    os.close(listener)
    call("unshare", 0)
    os._exit(0)
_, [listener], _, _ = socket.recv_fds(parent, 1, 1)
poll = select.poll()
poll.register(listener, select.POLLIN)
poll.poll(20_000)
notice = confine.receive(listener)
os.kill(pid, signal.SIGKILL)
os.waitpid(pid, 0)
confine.refuse(listener, notice, errno.EPERM)
result = [notice.name, confine.receive(listener)]
"""
    watching = syscall_filter.program(notify=True, sockets="none", no_metadata=False)
    assert run(body, locked=False, filter=watching) == ["unshare", None]


def test_a_waiting_call_can_only_be_refused() -> None:
    notice = confine.Notice(1, 1, 41, syscall_filter.ARCH_X86_64, (0,) * 6)
    for success in (0, -1, 4096):
        with pytest.raises(ValueError, match="error number"):
            confine.refuse(-1, notice, success)


def test_a_filter_that_cannot_be_loaded_is_an_error() -> None:
    body = 'result = attempt(lambda: confine.restrict(-1, b"12345678", notify=False))'
    assert run(body, locked=False) == "EINVAL"
    body = "result = attempt(lambda: confine.restrict(99, bytes.fromhex(given['filter']), notify=False))"
    assert run(body, locked=False) == "EBADF"


# --- Ordinary programs ------------------------------------------------------------------------------------------------

PROGRAM = """
os.chdir(given["inside"])
ended = subprocess.run(given["argv"], capture_output=True, text=True, env=given["environment"])
result = [ended.returncode, ended.stdout, ended.stderr]
"""


def program(inside: Path, *argv: str) -> list[Any]:
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(inside), "GIT_CONFIG_NOSYSTEM": "1"}
    # As the wall does it: the program begins after the lock, with nothing open but its three descriptors.
    return run(
        PROGRAM, write=(str(inside), "/dev/null"), inside=str(inside), argv=argv, environment=environment
    )


def test_ls_and_sort_work(inside: Path) -> None:
    (inside / "lines").write_text("b\na\n")
    assert program(inside, "/bin/ls", "-l", "lines")[0] == 0
    assert program(inside, "/usr/bin/sort", "lines") == [0, "a\nb\n", ""]


def test_programs_that_would_rather_watch_or_clone_do_without(inside: Path) -> None:
    (inside / "lines").write_text("first\nlast\n")
    script = """
set -e
cp --reflink=auto lines copy
cp copy second
tar -cf all.tar copy second
mkdir apart
tar -xf all.tar --no-same-owner -C apart
cat apart/copy
timeout 1 tail -n 1 -f lines || true
"""
    status, output, errors = program(inside, "/bin/sh", "-c", script)
    assert (status, output) == (0, "first\nlast\nlast\n"), errors


def test_python_works(inside: Path) -> None:
    if not os.path.exists("/usr/bin/python3"):
        pytest.skip("there is no /usr/bin/python3")
    code = """
import asyncio, os, subprocess, threading
threading.Thread(target=print).start()
asyncio.run(asyncio.sleep(0))
print(subprocess.run(["/bin/echo", "child"], capture_output=True, text=True).stdout)
"""
    status, output, errors = program(inside, "/usr/bin/python3", "-I", "-c", code)
    assert (status, output.split(), errors) == (0, ["child"], "")


def test_git_works(inside: Path) -> None:
    if not os.path.exists("/usr/bin/git"):
        pytest.skip("there is no /usr/bin/git")
    script = """
set -e
git init -q repository
cd repository
git config user.name Nobody
git config user.email nobody@example.org
echo text > file
git add file
git commit -q -m first
git status --porcelain
git log --format=%s
"""
    status, output, errors = program(inside, "/bin/sh", "-c", script)
    assert (status, output) == (0, "first\n"), errors


# --- Identity ---------------------------------------------------------------------------------------------------------

IDENTITY = """
status = dict(line.split(":", 1) for line in read("/proc/thread-self/status").splitlines())
after = subprocess.run(["/bin/cat", "/proc/self/status"], capture_output=True, text=True).stdout
after = dict(line.split(":", 1) for line in after.splitlines())
sets = ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")
result = {
    "now": [int(status[each], 16) for each in sets], "after exec": [int(after[each], 16) for each in sets],
    "ids": [os.getresuid(), os.getresgid(), os.getgroups()], "back": attempt(os.setuid, 0),
    "chroot": call("chroot", b"/"), "host name": call("sethostname", b"x", -1),
}
"""


@only_root
def test_dropped_capabilities_do_not_come_back_for_root() -> None:
    got = run("confine.drop_capabilities()\n" + IDENTITY, locked=False)
    assert got["now"] == got["after exec"] == [0] * 5
    assert (got["ids"][0], got["chroot"], got["host name"]) == ([0, 0, 0], "EPERM", "EPERM")
    assert run(IDENTITY, locked=False)["after exec"][2] != 0


@only_root
def test_capabilities_dropped_twice_stay_dropped_only_without_new_privileges() -> None:
    body = "confine.drop_capabilities()\nresult = attempt(confine.drop_capabilities)"
    assert run(body, locked=False) == "EPERM"  # nothing to hold on to says that it stays so
    assert run(NO_NEW_PRIVILEGES + body, locked=False) == "ok"


def test_on_another_machine_everything_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(confine, "SUPPORTED", False)
    monkeypatch.setattr(syscall_filter, "SUPPORTED", False)
    assert confine.landlock_abi() == 0
    attempts = (
        lambda: confine.ruleset(read=[], execute=[], write=[]),
        lambda: syscall_filter.program(notify=False, sockets="none", no_metadata=True),
        lambda: confine.restrict(-1, b"", notify=False),
        confine.drop_capabilities,
    )
    for attempt in attempts:
        with pytest.raises(OSError, match="x86-64") as refused:
            attempt()
        assert refused.value.errno == errno.ENOSYS
