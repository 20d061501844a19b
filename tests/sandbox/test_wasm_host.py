"""What a WASM module may ask of the host, and how."""

import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from metier.model.digest import Json
from metier.model.ports import Answered, NotAnswered
from metier.sandbox.wasm import WasmSandbox
from wasm_guests import Bench, imported, literal, wat


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


class Told:
    """A host that keeps what it is asked."""

    def __init__(self, answer: Answered | NotAnswered | None = None, wait: float = 0) -> None:
        self.answer = answer or Answered(value={"fine": True})
        self.wait = wait
        self.asked: list[tuple[str, dict[str, Json]]] = []
        self.cancelled = False

    async def ask(self, method: str, params: dict[str, Json]) -> Answered | NotAnswered:
        self.asked.append((method, params))
        try:
            await anyio.sleep(self.wait)
        except anyio.get_cancelled_exc_class():
            self.cancelled = True
            raise
        return self.answer


ALLOC = """(global $next (mut i32) (i32.const 8192))
    (func $alloc (export "alloc") (param i32) (result i32)
        (global.get $next) (global.set $next (i32.add (global.get $next) (local.get 0))))"""


def asking(
    request: bytes, *, at: int = 1024, length: int | None = None, alloc: str = ALLOC, after: str = ""
) -> bytes:
    """A module whose `f` asks once and gives what came back: JSON, or the error number as JSON."""
    return wat(f"""(module (import "metier" "ask" (func $ask (param i32 i32) (result i64)))
        (memory (export "memory") 4) (data (i32.const 1024) "{literal(request)}") {alloc}
        (func (export "f") (param i32 i32) (result i64) (local $said i64)
            (local.set $said (call $ask (i32.const {at}) (i32.const {len(request) if length is None else length})))
            {after}
            (if (i64.lt_s (local.get $said) (i64.const 0)) (then
                (i32.store8 (i32.const 512) (i32.const 45))
                (i32.store8 (i32.const 513) (i32.sub (i32.const 48) (i32.wrap_i64 (local.get $said))))
                (return (i64.const {512 << 32 | 2}))))
            (local.get $said)))""")


ASK = b'{"method":"log","params":{"text":"hi"}}'


def test_a_module_asks_and_gets_an_answer(bench: Bench) -> None:
    host = Told()
    report = bench.run(asking(ASK), "f", host=host)
    assert (report.ending, report.value) == ("returned", {"ok": {"fine": True}})
    assert host.asked == [("log", {"text": "hi"})]


def test_without_a_host_nobody_answers(bench: Bench) -> None:
    assert bench.run(asking(ASK), "f").value["error"]["name"] == "NotAvailable"


def test_a_refusal_is_counted_and_told_to_the_module(bench: Bench) -> None:
    host = Told(NotAnswered(name="PermissionDenied", message="not granted", kind="denied"))
    report = bench.run(asking(ASK), "f", host=host)
    assert report.value == {"error": {"name": "PermissionDenied", "message": "not granted"}}
    assert [(event.kind, event.detail, event.count) for event in report.denials] == [("host_call", "log", 1)]
    assert report.violations == ()


@pytest.mark.parametrize("after", ["", "(loop $l (br $l))"])
def test_a_violation_stops_the_run(bench: Bench, after: str) -> None:
    host = Told(NotAnswered(name="PermissionDenied", message="never", kind="violation"))
    report = bench.run(asking(ASK, after=after), "f", host=host)
    assert report.ending == "stopped"
    assert [(event.kind, event.detail) for event in report.violations] == [("host_call", "log")]
    assert report.value is None


@pytest.mark.parametrize(
    "request_",
    [
        b"hello",
        b"{}",
        b'{"method":1,"params":{}}',
        b'{"method":"a","params":{},"principal":"root"}',
        b'{"method":"a"}',
        b'{"method":"log","params":{"id":12345678901234567890}}',
    ],
)
def test_a_malformed_request_is_refused_and_no_violation(bench: Bench, request_: bytes) -> None:
    host = Told()
    report = bench.run(asking(request_), "f", host=host)
    assert report.violations == ()
    assert [event.kind for event in report.denials] == ["host_call"]
    assert host.asked == []


@pytest.mark.parametrize(
    ("at", "length"),
    [(-1, -1), (0, -1), (4 * 65_536, 1), (4 * 65_536 - 1, 2), (2**31 - 1, 2**31 - 1), (-8, 16), (1024, -2)],
)
def test_wasm_09_addresses_outside_the_memory_are_an_error_number(bench: Bench, at: int, length: int) -> None:
    host = Told()
    report = bench.run(asking(ASK, at=at, length=length), "f", host=host)
    assert (report.ending, report.value) == ("returned", -1)
    assert host.asked == []
    assert report.violations == ()


@pytest.mark.parametrize(
    "alloc",
    [
        '(func (export "alloc") (param i32) (result i32) (if (i32.eq (local.get 0) (i32.const 2))'
        " (then (return (i32.const 8192)))) (i32.const -4))",
        '(func (export "alloc") (param i32) (result i32) (if (i32.eq (local.get 0) (i32.const 2))'
        " (then (return (i32.const 8192)))) unreachable)",
        '(func (export "alloc") (param i32) (result i32) (if (i32.eq (local.get 0) (i32.const 2))'
        " (then (return (i32.const 8192)))) (i32.const 262143))",
    ],
)
def test_wasm_09_an_answer_that_has_no_room_is_an_error_number(bench: Bench, alloc: str) -> None:
    report = bench.run(asking(ASK, alloc=alloc), "f", host=Told())
    assert (report.ending, report.value) == ("returned", -2)


def test_wasm_09_asking_inside_alloc_does_not_go_deeper(bench: Bench) -> None:
    nested = f"""(global $inner (mut i64) (i64.const 0)) (global $turn (mut i32) (i32.const 0))
        (func $alloc (export "alloc") (param i32) (result i32)
            (global.set $turn (i32.add (global.get $turn) (i32.const 1)))
            (if (i32.gt_u (global.get $turn) (i32.const 1)) (then
                (global.set $inner (call $ask (i32.const 1024) (i32.const {len(ASK)})))))
            (i32.const 8192))"""
    host = Told()
    report = bench.run(
        asking(ASK, alloc=nested, after="(local.set $said (global.get $inner))"), "f", host=host
    )
    assert (report.ending, report.value) == ("returned", -3)
    assert len(host.asked) == 1


def test_wasm_09_bad_addresses_for_wasi_are_an_error_number(bench: Bench) -> None:
    calls = {
        "fd_write": "(i32.const 1) (i32.const -8) (i32.const 1) (i32.const 8)",
        "fd_read": "(i32.const 0) (i32.const -8) (i32.const 1) (i32.const 8)",
        "poll_oneoff": "(i32.const -8) (i32.const -8) (i32.const 4) (i32.const 8)",
        "random_get": "(i32.const 0) (i32.const -1)",
    }
    for name, given in calls.items():
        module = wat(f"""(module {imported(name)} (memory (export "memory") 1)
            (func (export "f") (result i32) (call ${name} {given})))""")
        report = bench.run(module, "f")
        assert report.ending == "raised" or (report.ending == "returned" and report.value != 0), name
        assert report.fault is None or "Error" not in report.fault.name


def test_wasm_07_a_blocked_host_call_ends_with_the_run(bench: Bench) -> None:
    host = Told(wait=30)
    began = time.monotonic()
    report = bench.run(asking(ASK), "f", host=host, limits={"timeout": 0.5})
    assert report.ending == "timed_out"
    assert report.usage.seconds < 1.5
    assert time.monotonic() - began < 5
    assert host.cancelled


def test_wasm_07_cancelling_ends_a_blocked_host_call(bench: Bench) -> None:
    host = Told(wait=30)
    job = bench.job(asking(ASK), "f", host=host)

    async def cancelled(sandbox: WasmSandbox) -> float:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(sandbox.run, job)
            while not host.asked:
                await anyio.sleep(0.01)
            began = time.monotonic()
            tasks.cancel_scope.cancel()
        return time.monotonic() - began

    assert bench.using(cancelled) < 1
    assert host.cancelled


def test_wasm_11_a_request_reaches_the_host_of_its_own_run_only(bench: Bench) -> None:
    """Two runs of one module at once, one of which claims to be the other: each is answered by its own host."""
    name = bench.write(asking(b'{"method":"whoami","params":{"skill":"other"}}'))
    hosts = {str(number): Told(Answered(value=number), wait=0.05) for number in range(8)}

    async def all_at_once(sandbox: WasmSandbox) -> dict[str, Any]:
        said: dict[str, Any] = {}

        async def one(who: str) -> None:
            said[who] = (await sandbox.run(bench.job(name, "f", host=hosts[who]))).value

        async with anyio.create_task_group() as tasks:
            for who in hosts:
                tasks.start_soon(one, who)
        return said

    assert bench.using(all_at_once) == {who: {"ok": int(who)} for who in hosts}
    assert all(host.asked == [("whoami", {"skill": "other"})] for host in hosts.values())
