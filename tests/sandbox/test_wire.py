"""The host's side of the bridge, against a guest that is a thread at the other end of a socket."""

import json
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from metier.model.job import Event, Fault
from metier.model.ports import Answered, NotAnswered
from metier.sandbox.wire import MOST_AT_ONCE, Broken, End, Raised, Returned, Wire
from metier.sandbox.wire_lines import SharedLines
from metier.sandbox.wire_message import MOST_BYTES

KEY = "0123456789abcdef0123456789abcdef"


class Guest:
    """What runs inside, as far as the wire can see it."""

    def __init__(self, end: socket.socket) -> None:
        self.socket = end
        self._file = end.makefile("rb")
        self.key = ""

    def begin(self) -> dict[str, Any]:
        asked = self.receive()
        self.key = asked["key"]
        return asked

    def receive(self) -> dict[str, Any]:
        return json.loads(self._file.readline())

    def raw(self, data: bytes) -> None:
        self.socket.sendall(data)

    def say(self, **message: Any) -> None:
        self.raw(f"{self.key} ".encode() + json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def ask(self, method: str, number: int = 1, **params: Any) -> dict[str, Any]:
        self.say(id=number, method=method, params=params)
        return self.receive()

    def close(self) -> None:
        self._file.close()
        self.socket.close()


class Asked:
    """A host that answers `echo`, sleeps on `wait`, and refuses the rest in several ways."""

    def __init__(self) -> None:
        self.methods: list[str] = []
        self.at_once = 0
        self.most_at_once = 0
        self.given_up = 0
        self.go_on = anyio.Event()

    async def ask(self, method: str, params: dict[str, Any]) -> Answered | NotAnswered:
        self.methods.append(method)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            if method == "wait":
                await self.go_on.wait()
            if method == "large":
                return Answered(value="x" * params["size"])
            if method == "odd":
                return Answered(value="\ud800")
            if method == "denied":
                return NotAnswered(name="PermissionDenied", message="not granted", kind="denied")
            if method == "violation":
                return NotAnswered(name="PermissionDenied", message="never", kind="violation")
            return Answered(value=params)
        except BaseException:
            self.given_up += 1
            raise
        finally:
            self.at_once -= 1


@contextmanager
def guest(acting: Callable[[Guest], None]) -> Iterator[int]:
    """Run a guest beside us; gives the host's descriptor."""
    ours, theirs = socket.socketpair()
    inside = Guest(theirs)

    def act() -> None:
        try:
            acting(inside)
        except (OSError, ValueError):
            pass  # the host hung up
        finally:
            inside.close()

    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    try:
        yield ours.fileno()
    finally:
        ours.close()
        thread.join(10)
        assert not thread.is_alive()


def run(
    acting: Callable[[Guest], None],
    *,
    host: Asked | None = None,
    output_bytes: int = MOST_BYTES,
    params: dict[str, Any] | None = None,
    shared: bool = False,
) -> tuple[End, Wire]:
    async def main(descriptor: int) -> tuple[End, Wire]:
        wire = Wire(descriptor, descriptor, key=KEY, host=host, output_bytes=output_bytes, shared=shared)
        with anyio.fail_after(20):
            return await wire.run(params or {}), wire

    with guest(acting) as descriptor:
        return anyio.run(main, descriptor)


def test_what_a_guest_returns_comes_back_and_it_is_told_what_to_run() -> None:
    seen: list[dict[str, Any]] = []

    def acting(inside: Guest) -> None:
        seen.append(inside.begin())
        inside.say(id=0, result={"a": [1, 2.5, "ü", None, True]})

    end, wire = run(acting, params={"kind": "handler", "arguments": {"x": "😀"}})
    assert isinstance(end, Returned)
    assert end.value == {"a": [1, 2.5, "ü", None, True]}
    assert seen == [
        {
            "jsonrpc": "2.0",
            "id": 0,
            "method": "run",
            "params": {"kind": "handler", "arguments": {"x": "😀"}},
            "key": KEY,
        }
    ]
    assert (wire.denials, wire.violations, wire.stdout, wire.truncated) == ((), (), "", False)


def test_an_error_of_the_code_comes_back_as_name_and_message() -> None:
    def acting(inside: Guest) -> None:
        inside.begin()
        inside.say(id=0, error={"code": -32000, "message": "no such city", "data": {"name": "TypeError"}})

    assert run(acting)[0] == Raised(fault=Fault(name="TypeError", message="no such city"))


def test_a_runner_can_say_that_the_result_is_not_plain_json() -> None:
    def acting(inside: Guest) -> None:
        inside.begin()
        inside.say(id=0, error={"code": -32001, "message": "a cycle", "data": {"name": "BadResult"}})

    assert run(acting)[0] == Broken(problem="bad_result", detail="a cycle")


def test_requests_are_answered_while_the_run_goes_on() -> None:
    def acting(inside: Guest) -> None:
        inside.begin()
        inside.say(id=0, result=[inside.ask("echo", 7, a="b")["result"], inside.ask("echo", 7)["result"]])

    end, wire = run(acting, host=Asked())
    assert isinstance(end, Returned)
    assert end.value == [{"a": "b"}, {}]
    assert wire.violations == ()


def test_a_slow_answer_holds_up_no_other() -> None:
    host = Asked()

    def acting(inside: Guest) -> None:
        inside.begin()
        inside.say(id=1, method="wait")
        second = inside.ask("echo", 2)
        inside.say(id=0, result=second["id"])

    end, _ = run(acting, host=host)
    assert isinstance(end, Returned)
    assert end.value == 2
    assert (host.given_up, host.at_once) == (1, 0)  # the slow one was ended before the run was over


def test_a_host_that_is_none_answers_that_there_is_nothing() -> None:
    def acting(inside: Guest) -> None:
        inside.begin()
        inside.say(id=0, result=inside.ask("exec")["error"])

    end, _ = run(acting)
    assert isinstance(end, Returned)
    assert end.value["data"] == {"name": "NotFound"}
    assert end.value["code"] == -32000


# What only a forger would send

FORGED = [
    pytest.param(b'{"jsonrpc":"2.0","id":0,"result":1}\n', id="no key"),
    pytest.param(b'ffffffffffffffffffffffffffffffff {"id":0,"result":1}\n', id="another key"),
    pytest.param(KEY.encode() + b'{"id":0,"result":1}\n', id="no blank"),
    pytest.param(KEY.encode() + b"\n", id="the key alone"),
    pytest.param(b"\n", id="an empty line"),
    pytest.param(b"hello\n", id="plain text"),
    pytest.param(KEY.encode() + b" hello\n", id="no JSON"),
    pytest.param(KEY.encode() + b" [1]\n", id="no object"),
    pytest.param(KEY.encode() + b' {"jsonrpc":"1.0","id":0,"result":1}\n', id="another version"),
    pytest.param(KEY.encode() + b' {"id":1,"result":1}\n', id="an answer nobody asked for"),
    pytest.param(KEY.encode() + b' {"id":false,"result":1}\n', id="an id that is no number"),
    pytest.param(KEY.encode() + b' {"result":1}\n', id="an answer to nothing"),
    pytest.param(KEY.encode() + b' {"id":0,"result":1,"error":{}}\n', id="both ends at once"),
    pytest.param(KEY.encode() + b' {"id":0,"error":"x"}\n', id="an error of unknown form"),
    pytest.param(KEY.encode() + b' {"id":0,"method":"echo","params":{}}\n', id="a request with our id"),
    pytest.param(KEY.encode() + b' {"id":-1,"method":"echo"}\n', id="a negative id"),
    pytest.param(KEY.encode() + b' {"id":1,"method":"echo","params":[]}\n', id="params that are a list"),
    pytest.param(KEY.encode() + b' {"id":1,"method":"__proto__"}\n', id="a method that is no name"),
    pytest.param(KEY.encode() + b' {"id":1,"method":"echo","as":"other"}\n', id="a field too many"),
    pytest.param(KEY.encode() + b' {"id":0,"id":0,"result":1}\n', id="a key given twice"),
]


@pytest.mark.parametrize("line", FORGED)
def test_a_line_our_own_runner_would_not_send_ends_the_run_as_a_violation(line: bytes) -> None:
    host = Asked()

    def acting(inside: Guest) -> None:
        inside.begin()
        inside.raw(line)
        inside.say(id=0, result="fine")

    end, wire = run(acting, host=host)
    assert isinstance(end, Broken)
    assert end.problem == "forged_message"
    assert [each.kind for each in wire.violations] == ["forged_message"]
    assert KEY not in end.detail + repr(wire.violations)
    assert host.methods == []


def test_control_the_same_guest_without_the_forged_line_is_believed() -> None:
    def acting(inside: Guest) -> None:
        inside.begin()
        inside.raw(b"")
        inside.say(id=0, result="fine")

    end, wire = run(acting, host=Asked())
    assert isinstance(end, Returned)
    assert wire.violations == ()


def test_a_second_answer_is_a_violation() -> None:
    def acting(inside: Guest) -> None:
        inside.begin()
        line = f'{KEY} {{"id":0,"result":1}}\n'.encode()
        inside.raw(line + line)

    end, wire = run(acting)
    assert isinstance(end, Broken)
    assert wire.violations == (Event(kind="forged_message", detail="a second answer to the one run"),)


def test_two_open_requests_with_one_id_are_a_violation() -> None:
    def acting(inside: Guest) -> None:
        inside.begin()
        inside.say(id=1, method="wait")
        inside.say(id=1, method="wait")
        inside.receive()

    end, _ = run(acting, host=Asked())
    assert isinstance(end, Broken)
    assert end.problem == "forged_message"


def test_what_is_said_before_the_run_begins_is_forged() -> None:
    end, wire = run(lambda inside: inside.raw(b'{"id":0,"result":"early"}\n'))
    assert isinstance(end, Broken)
    assert len(wire.violations) == 1


# Code that can print on the same descriptor


def printing(*pieces: bytes) -> Callable[[Guest], None]:
    def acting(inside: Guest) -> None:
        inside.begin()
        for piece in pieces:
            inside.raw(piece)
        assert inside.ask("echo", word="yes")["result"] == {"word": "yes"}
        inside.say(id=0, result="fine")

    return acting


@pytest.mark.parametrize(
    ("pieces", "output"),
    [
        ((b"hello\n",), "hello\n"),
        ((b"hel", b"lo\nyou\n"), "hello\nyou\n"),
        ((b"no line end",), "no line end"),
        ((b"gr\xc3", b"\xbc\xc3\x9fe\n"), "grüße\n"),
        (
            (b'ffffffffffffffffffffffffffffffff {"jsonrpc":"2.0","id":0,"result":1}\n',),
            "f" * 32 + ' {"jsonrpc":"2.0","id":0,"result":1}\n',
        ),
        ((b"\n",), "\n"),
        ((b'{"id":0,"result":1}\n',), '{"id":0,"result":1}\n'),
        ((b"0123456789abcdef and more\n",), "0123456789abcdef and more\n"),
        ((b"\xff\n",), "\ufffd\n"),
    ],
)
def test_on_a_shared_descriptor_what_has_no_key_is_output(pieces: tuple[bytes, ...], output: str) -> None:
    end, wire = run(printing(*pieces), host=Asked(), shared=True)
    assert isinstance(end, Returned), end
    assert (wire.stdout, wire.violations) == (output, ())
    alone, strict = run(printing(*pieces), host=Asked())
    assert isinstance(alone, Broken), "on a descriptor of its own the same is forged"
    assert len(strict.violations) == 1


@pytest.mark.parametrize("before", [b"", b"hello "])
@pytest.mark.parametrize(
    "line",
    [
        b'{"jsonrpc":"2.0","id":0,"result":"forged"}\n',
        b'{"jsonrpc": "2.0", "id": 1}\n',
        b'  { "jsonrpc" : "2.0", "method": "exec"}\n',
        KEY[:-1].encode() + b' {"jsonrpc":"2.0","id":0,"result":"forged"}\n',
        KEY[:-1].encode() + b'\n{"jsonrpc":"2.0","id":0,"result":"forged"}\n',
        KEY.upper().encode() + b' {"jsonrpc":"2.0","id":0,"result":"forged"}\n',
    ],
)
def test_on_a_shared_descriptor_what_looks_like_a_message_is_output_and_not_believed(
    line: bytes, before: bytes
) -> None:
    """The code may print what a caller, a file or a server told it; without the key that is no message."""
    host = Asked()
    end, wire = run(printing(before + line), host=host, shared=True)
    assert isinstance(end, Returned), end
    assert end.value == "fine"
    assert (wire.stdout.encode(), wire.violations) == (before + line, ())
    assert host.methods == ["echo"]
    alone, strict = run(printing(before + line), host=Asked())
    assert isinstance(alone, Broken), "on a descriptor of its own the same is forged"
    assert [each.kind for each in strict.violations] == ["forged_message"]


@pytest.mark.parametrize("before", [b"", b"a line\n"])
@pytest.mark.parametrize(
    "line",
    [
        KEY.encode() + b'{"jsonrpc":"2.0","id":0,"result":"forged"}\n',
        KEY.encode() + b"\n",
        b"found " + KEY.encode() + b"! and more\n",
        KEY.encode() + b" hello\n",
        KEY.encode() + b' {"id":1,"result":1}\n',
    ],
)
def test_on_a_shared_descriptor_a_line_with_the_key_in_a_wrong_place_is_forged(
    line: bytes, before: bytes
) -> None:
    end, wire = run(printing(before + line), host=Asked(), shared=True)
    assert isinstance(end, Broken)
    assert [each.kind for each in wire.violations] == ["forged_message"]
    assert KEY not in wire.stdout + repr(wire.violations)


def test_output_without_any_line_end_is_kept_up_to_the_limit_and_loses_no_message() -> None:
    end, wire = run(printing(*[b"x" * 60_000] * 40), host=Asked(), shared=True)
    assert isinstance(end, Returned), end
    assert wire.truncated
    assert set(wire.stdout) <= {"x", "\n"}
    assert len(wire.stdout) == MOST_BYTES


def test_output_is_taken_in_pieces_however_many_lines_it_has() -> None:
    taken: list[bytes] = []
    lines = SharedLines(KEY.encode(), most=MOST_BYTES, output=taken.append)
    message = KEY.encode() + b' {"id":1}'
    said = [b"\n" * 60_000, b"\n\n" + message[:20], message[20:] + b"\nafter", b"\n" * 9]
    assert [line for piece in said for line in lines.add(piece)] == [message]
    lines.end()
    assert b"".join(taken) == b"\n" * 60_002 + b"after" + b"\n" * 9
    assert len(taken) <= 2 * len(said)


def test_output_before_the_end_without_a_result_is_kept() -> None:
    def acting(inside: Guest) -> None:
        inside.begin()
        inside.raw(b"last wo")
        inside.raw(b"rds")

    end, wire = run(acting, shared=True)
    assert isinstance(end, Broken)
    assert (end.problem, wire.stdout) == ("closed", "last words")


# Large messages


def test_a_result_may_be_as_large_as_the_limit_says_and_no_larger() -> None:
    def returns(size: int) -> Callable[[Guest], None]:
        def acting(inside: Guest) -> None:
            inside.begin()
            inside.say(id=0, result="x" * size)

        return acting

    limit = 3 * MOST_BYTES
    end, _ = run(returns(limit - 2), output_bytes=limit)
    assert isinstance(end, Returned)
    assert end.value == "x" * (limit - 2)
    for at, most in ((limit + 100, limit), (MOST_BYTES + 100, MOST_BYTES)):
        end, _ = run(returns(at), output_bytes=most)
        assert isinstance(end, Broken), "above the limit it is not taken"
        assert end.problem in ("too_large", "bad_result")


def test_a_request_stays_small_whatever_the_result_may_be() -> None:
    answers: list[dict[str, Any]] = []

    def acting(inside: Guest) -> None:
        inside.begin()
        answers.append(inside.ask("echo", word="x" * (MOST_BYTES + 10)))
        inside.say(id=0, result="fine")

    host = Asked()
    end, _ = run(acting, host=host, output_bytes=4 * MOST_BYTES)
    assert isinstance(end, Returned)
    assert answers[0]["error"]["data"]["name"] == "InvalidRequest"
    assert host.methods == []


def test_a_guest_that_floods_leaves_the_loop_to_others() -> None:
    """Dense messages, each slow to read: another task must get its turns all the while."""
    dense = json.dumps({"jsonrpc": "2.0", "method": "log", "params": {"a": [[]] * 15_000}}).encode()
    turns: list[float] = []

    def acting(inside: Guest) -> None:
        inside.begin()
        for _ in range(60):
            inside.raw(KEY.encode() + b" " + dense + b"\n")
        inside.say(id=0, result="fine")

    async def main(descriptor: int) -> float:
        wire = Wire(descriptor, descriptor, key=KEY, host=None, output_bytes=MOST_BYTES)
        began = time.monotonic()
        async with anyio.create_task_group() as tasks:

            async def beat() -> None:
                while True:
                    before = time.thread_time()
                    await anyio.lowlevel.checkpoint()
                    turns.append(time.thread_time() - before)

            tasks.start_soon(beat)
            assert isinstance(await wire.run({}), Returned)
            tasks.cancel_scope.cancel()
        return time.monotonic() - began

    with guest(acting) as descriptor:
        took = anyio.run(main, descriptor)
    assert took > 0.1, "else there was no flood"
    others = sum(turn for turn in turns if turn < 0.004)
    assert others > took / 10, f"the others had {others:.2f} of {took:.2f} s"


# Odd values of honest code


@pytest.mark.parametrize(
    "value",
    [
        b'"\\ud800"',
        b"[" * 100 + b"]" * 100,
        b"[" * 100_000 + b"]" * 100_000,
        b"NaN",
        b"9007199254740993",
        b'{"a":1,"a":2}',
        b'"\xff"',
    ],
    ids=["surrogate", "deep", "very deep", "nan", "big", "twice", "not UTF-8"],
)
def test_an_odd_result_of_honest_code_is_no_violation(value: bytes) -> None:
    def acting(inside: Guest) -> None:
        inside.begin()
        inside.raw(f"{KEY} ".encode() + b'{"jsonrpc":"2.0","id":0,"result":' + value + b"}\n")

    end, wire = run(acting)
    assert isinstance(end, Broken)
    assert end.problem == "bad_result"
    assert wire.violations == ()


def test_an_odd_request_is_answered_and_the_run_goes_on() -> None:
    def acting(inside: Guest) -> None:
        inside.begin()
        inside.raw(
            f"{KEY} ".encode() + b'{"jsonrpc":"2.0","id":4,"method":"echo","params":{"a":"\\udc00"}}\n'
        )
        said = inside.receive()
        inside.raw(f"{KEY} ".encode() + b'{"jsonrpc":"2.0","method":"log","params":{"message":"\\udc00"}}\n')
        inside.say(id=0, result=[said["id"], said["error"]["data"]["name"]])

    host = Asked()
    end, _ = run(acting, host=host)
    assert isinstance(end, Returned)
    assert end.value == [4, "InvalidRequest"]
    assert host.methods == []


def test_an_answer_of_the_host_that_is_not_plain_or_too_large_becomes_an_error() -> None:
    def acting(inside: Guest) -> None:
        inside.begin()
        odd, large = inside.ask("odd", 1), inside.ask("large", 2, size=MOST_BYTES)
        inside.say(id=0, result=[each["error"]["data"]["name"] for each in (odd, large)])

    end, _ = run(acting, host=Asked())
    assert isinstance(end, Returned)
    assert end.value == ["BadAnswer", "TooLarge"]


# Refusals


def test_denials_are_counted_and_the_run_goes_on() -> None:
    def acting(inside: Guest) -> None:
        inside.begin()
        names = [inside.ask("denied", n)["error"]["data"]["name"] for n in (1, 2, 3)]
        inside.say(id=0, result=names)

    end, wire = run(acting, host=Asked())
    assert isinstance(end, Returned)
    assert end.value == ["PermissionDenied"] * 3
    assert wire.denials == (Event(kind="host_call", detail="denied: not granted", count=3),)
    assert wire.violations == ()


def test_a_violation_ends_the_run_at_once() -> None:
    answered = threading.Event()

    def acting(inside: Guest) -> None:
        inside.begin()
        inside.say(id=1, method="violation")
        if inside.socket.recv(1):
            answered.set()

    end, wire = run(acting, host=Asked())
    assert end == Broken(problem="violation", detail="violation: never")
    assert wire.violations == (Event(kind="host_call", detail="violation: never"),)
    assert not answered.is_set()


# Bounds


def test_too_many_requests_at_once_are_told_so() -> None:
    host = Asked()
    more = 10

    def acting(inside: Guest) -> None:
        inside.begin()
        for number in range(1, MOST_AT_ONCE + more + 1):
            inside.say(id=number, method="wait")
        busy = [inside.receive() for _ in range(more)]
        inside.say(id=0, result=[each["error"]["data"]["name"] for each in busy])

    end, _ = run(acting, host=host)
    assert isinstance(end, Returned)
    assert end.value == ["Busy"] * more
    assert host.most_at_once == MOST_AT_ONCE


def test_too_many_requests_altogether_are_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metier.sandbox.wire.MOST_REQUESTS", 50)

    def acting(inside: Guest) -> None:
        inside.begin()
        said = [inside.ask("echo", n) for n in range(1, 61)]
        inside.say(id=0, result=[sum("result" in each for each in said), said[-1]["error"]["data"]["name"]])

    end, _ = run(acting, host=Asked())
    assert isinstance(end, Returned)
    assert end.value == [50, "Busy"]


def test_a_message_without_end_is_cut_off() -> None:
    sent = 0

    def acting(inside: Guest) -> None:
        nonlocal sent
        inside.begin()
        while True:
            inside.raw(b"x" * 65_536)
            sent += 65_536

    end, _ = run(acting)
    assert isinstance(end, Broken)
    assert end.problem == "too_large"
    assert sent < 4 * MOST_BYTES


@pytest.mark.parametrize(("size", "kind"), [(900, Returned), (1_200, Broken)])
def test_a_result_is_bounded_by_the_output_limit(size: int, kind: type[End]) -> None:
    def acting(inside: Guest) -> None:
        inside.begin()
        inside.say(id=0, result="x" * size)

    end, wire = run(acting, output_bytes=1_000)
    assert isinstance(end, kind), end
    assert wire.violations == ()


def test_large_input_and_output_below_the_cap_arrive_whole_in_both_directions_at_once() -> None:
    text = "äöü😀" * 80_000

    def acting(inside: Guest) -> None:
        asked = inside.begin()
        inside.say(id=1, method="large", params={"size": 900_000})
        back = {"given": asked["params"]["text"][:1000], "same": asked["params"]["text"] == text}
        inside.say(id=0, result={**back, "answer": len(inside.receive()["result"]), "fill": "y" * 900_000})

    end, _ = run(acting, host=Asked(), params={"text": text})
    assert isinstance(end, Returned)
    assert isinstance(end.value, dict)
    assert (end.value["same"], end.value["answer"], len(end.value["fill"])) == (True, 900_000, 900_000)


def test_a_guest_that_reads_no_answer_neither_blocks_nor_fills_the_host() -> None:
    host = Asked()

    def acting(inside: Guest) -> None:
        inside.begin()
        for number in range(1, MOST_AT_ONCE + 1):
            inside.say(id=number, method="large", params={"size": 500_000})
        inside.say(id=0, result="done")

    end, wire = run(acting, host=host)
    assert isinstance(end, Returned)
    assert wire._out.waiting < 3 * MOST_BYTES


def test_a_guest_that_only_asks_and_never_reads_is_ended() -> None:
    def acting(inside: Guest) -> None:
        inside.begin()
        number = 0
        while True:
            number += 1
            inside.say(id=number, method="wait")

    began = time.monotonic()
    end, wire = run(acting, host=Asked())
    assert end == Broken(problem="too_large", detail="It does not read the answers to what it asks")
    assert wire.violations == ()
    assert time.monotonic() - began < 20


def test_log_notifications_become_output_up_to_the_limit() -> None:
    def acting(inside: Guest) -> None:
        inside.begin()
        for level in ("info", "warn", "error", "debug"):
            inside.say(method="log", params={"level": level, "message": f"{level} é"})
        inside.say(method="log", params={"level": "info", "message": "é" * 100})
        inside.say(id=0, result=None)

    host = Asked()
    end, wire = run(acting, host=host, output_bytes=40)
    assert isinstance(end, Returned)
    assert wire.stderr == "warn é\nerror é\n"
    assert wire.stdout.startswith("info é\ndebug é\né")
    assert len((wire.stdout + wire.stderr).encode()) <= 40
    assert (wire.truncated, wire.logged_bytes) == (True, 34 + 201)
    assert host.methods == []


def test_a_flood_of_log_lines_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("metier.sandbox.wire.MOST_LOGGED", 1_000_000)

    def acting(inside: Guest) -> None:
        inside.begin()
        while True:
            inside.say(method="log", params={"level": "info", "message": "x" * 1_000})

    end, wire = run(acting, output_bytes=1_000)
    assert isinstance(end, Broken)
    assert end.problem == "too_large"
    assert len(wire.stdout) <= 1_000


# Ends


def test_a_guest_that_goes_away_without_an_answer_is_closed() -> None:
    end, wire = run(lambda inside: inside.begin() and None)
    assert isinstance(end, Broken)
    assert end.problem == "closed"
    assert wire.violations == ()


def test_two_pipes_do_as_well_as_a_socket_and_a_guest_that_is_gone_is_no_exception() -> None:
    async def main() -> End:
        ours, theirs = os.pipe(), os.pipe()
        for descriptor in (ours[1], theirs[0]):
            os.close(descriptor)
        try:
            wire = Wire(ours[0], theirs[1], key=KEY, host=None, output_bytes=100)
            return await wire.run({"fill": "x" * 200_000})
        finally:
            os.close(ours[0])
            os.close(theirs[1])

    end = anyio.run(main)
    assert isinstance(end, Broken)
    assert end.problem == "closed"


def test_cancelling_a_run_ends_what_is_being_answered_before_it_returns() -> None:
    host = Asked()
    begun = threading.Event()

    def acting(inside: Guest) -> None:
        inside.begin()
        for number in range(1, 6):
            inside.say(id=number, method="wait")
        inside.ask("echo", 6)
        begun.set()
        inside.receive()

    async def main(descriptor: int) -> None:
        wire = Wire(descriptor, descriptor, key=KEY, host=host, output_bytes=100)
        async with anyio.create_task_group() as group:
            group.start_soon(wire.run, {})
            while not begun.is_set():
                await anyio.sleep(0.005)
            assert host.at_once == 5
            group.cancel_scope.cancel()
        assert (host.at_once, host.given_up) == (0, 5)

    with guest(acting) as descriptor:
        anyio.run(main, descriptor)


def test_a_flooding_guest_leaves_room_for_its_neighbour() -> None:
    stop = threading.Event()

    def flooding(inside: Guest) -> None:
        inside.begin()
        while not stop.is_set():
            inside.say(method="log", params={"level": "info", "message": "x" * 100})

    def quiet(inside: Guest) -> None:
        inside.begin()
        inside.say(id=0, result=[inside.ask("echo", n)["id"] for n in range(1, 20)])

    async def main(loud: int, calm: int) -> float:
        async with anyio.create_task_group() as group:
            group.start_soon(Wire(loud, loud, key=KEY, host=None, output_bytes=100).run, {})
            await anyio.sleep(0.05)
            began = time.monotonic()
            end = await Wire(calm, calm, key=KEY, host=Asked(), output_bytes=1_000).run({})
            took = time.monotonic() - began
            assert isinstance(end, Returned)
            group.cancel_scope.cancel()
        return took

    with guest(flooding) as loud, guest(quiet) as calm:
        took = anyio.run(main, loud, calm)
        stop.set()
    assert took < 5
