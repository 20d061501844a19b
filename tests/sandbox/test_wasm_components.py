"""Components: called by their types, and given no more than modules."""

import socket
from pathlib import Path
from typing import Any

import pytest

from metier.model.job import Place
from metier.testing.sandbox_kit.wat_components import SOCKET_IMPORTS
from wasm_guests import Bench, wat


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


MEMORY = """(memory (export "mem") 4) (global $next (mut i32) (i32.const 4096))
    (func (export "realloc") (param i32 i32 i32 i32) (result i32)
        (global.get $next) (global.set $next (i32.add (global.get $next) (i32.add (local.get 3) (i32.const 8)))))"""


def component(core: str, lifts: str, imports: str = "") -> bytes:
    return wat(f"""(component {imports}
        (core module $m {MEMORY} {core})
        (core instance $i (instantiate $m))
        {lifts})""")


def lift(name: str, kind: str, *, memory: bool = False) -> str:
    options = '(memory (core memory $i "mem")) (realloc (core func $i "realloc"))' if memory else ""
    return f'(func (export "{name}") {kind} (canon lift (core func $i "{name}") {options}))'


ECHO = component(
    """(func (export "echo") (param i32 i32) (result i32)
        (i32.store (i32.const 16) (local.get 0)) (i32.store (i32.const 20) (local.get 1)) (i32.const 16))
    (func (export "greet") (param i32 i32) (result i32)
        (i32.store (i32.const 16) (local.get 0)) (i32.store (i32.const 20) (local.get 1)) (i32.const 16))
    (func (export "try") (param i32 i32) (result i32)
        (i32.store8 (i32.const 12) (i32.const 1))
        (i32.store (i32.const 16) (local.get 0)) (i32.store (i32.const 20) (local.get 1)) (i32.const 12))
    (func (export "add") (param i32 f64) (result f64) (f64.add (f64.convert_i32_s (local.get 0)) (local.get 1)))
    (func (export "count") (param i32 i32) (result i32) (local.get 1))
    (func (export "spin") (loop $l (br $l))) (func (export "trap") unreachable)
    (func $deep (export "deep") (call $deep))
    (func (export "grow") (result i32) (memory.grow (i32.const 1024)))""",
    lift("echo", '(param "json" string) (result string)', memory=True)
    + lift("greet", '(param "name" string) (result string)', memory=True)
    + lift("try", '(param "json" string) (result (result string (error string)))', memory=True)
    + lift("add", '(param "first-one" s8) (param "second" f64) (result f64)')
    + lift("count", '(param "all" (list string)) (result u32)', memory=True)
    + lift("spin", "")
    + lift("trap", "")
    + lift("deep", "")
    + lift("grow", "(result s32)"),
)


@pytest.mark.parametrize(
    ("function", "arguments", "value"),
    [
        ("echo", {"b": [1, "ü"], "a": None}, {"a": None, "b": [1, "ü"]}),
        ("greet", {"name": "Ada"}, "Ada"),
        ("add", {"first_one": -5, "second": 7}, 2.0),
        ("count", {"all": ["a", "b", "c"]}, 3),
    ],
)
def test_a_component_is_called_by_its_types(bench: Bench, function: str, arguments: Any, value: Any) -> None:
    report = bench.run(ECHO, function, arguments)
    assert (report.ending, report.value) == ("returned", value), report.fault


@pytest.mark.parametrize(
    ("function", "arguments"),
    [
        ("add", {"first_one": 128, "second": 1}),
        ("add", {"first_one": 1}),
        ("add", {"first_one": 1, "second": 2, "third": 3}),
        ("add", {"first_one": "1", "second": 2}),
        ("greet", {"name": 5}),
        ("count", {"all": [1]}),
        ("absent", {}),
        ("interface#absent", {}),
    ],
)
def test_what_does_not_fit_a_component_never_reaches_it(bench: Bench, function: str, arguments: Any) -> None:
    assert bench.run(ECHO, function, arguments).ending == "not_started"


def test_an_error_of_a_component_is_its_own_word(bench: Bench) -> None:
    report = bench.run(ECHO, "try", {"a": 1})
    assert report.ending == "raised"
    assert report.fault is not None
    assert report.fault.message == '{"a":1}'


def test_wasm_06_a_component_burns_fuel_too(bench: Bench) -> None:
    report = bench.run(ECHO, "spin", limits={"fuel": 100_000})
    assert report.ending == "out_of_fuel"
    assert report.usage.fuel == 100_000


def test_res_01_a_component_ends_in_time(bench: Bench) -> None:
    report = bench.run(ECHO, "spin", limits={"timeout": 0.3})
    assert report.ending == "timed_out"
    assert report.usage.seconds < 1.3


def test_wasm_05_a_component_has_the_same_memory_limit(bench: Bench) -> None:
    assert bench.run(ECHO, "grow", limits={"memory_mb": 256}).value == 4
    assert bench.run(ECHO, "grow", limits={"memory_mb": 16}).value == -1


@pytest.mark.parametrize(("function", "name"), [("trap", "Trap"), ("deep", "StackOverflow")])
def test_wasm_08_a_trap_of_a_component_is_told(bench: Bench, function: str, name: str) -> None:
    report = bench.run(ECHO, function)
    assert report.ending == "raised"
    assert report.fault is not None
    assert report.fault.name == name
    assert "/" not in report.fault.message


def test_wasm_13_a_component_without_a_program_is_refused_as_one(bench: Bench) -> None:
    report = bench.run(ECHO)
    assert report.ending == "not_started"
    assert "wasi:cli/run" in report.fault.message  # type: ignore[union-attr]


RUN = """(component {imports}
    (core module $m (func (export "run") (result i32) (i32.const {code})))
    (core instance $i (instantiate $m))
    (func $run (result (result)) (canon lift (core func $i "run")))
    (instance $run-instance (export "run" (func $run)))
    (export "wasi:cli/run@0.2.3" (instance $run-instance)))"""


@pytest.mark.parametrize(("code", "ending"), [(0, "no_result"), (1, "exited")])
def test_a_component_can_be_a_program(bench: Bench, code: int, ending: str) -> None:
    report = bench.run(wat(RUN.format(imports="", code=code)))
    assert (report.ending, report.exit_code) == (ending, code)


PRINTING = """(component
    (import "wasi:io/error@0.2.0" (instance $error (export "error" (type (sub resource)))))
    (alias export $error "error" (type $error-type))
    (import "wasi:io/streams@0.2.0" (instance $streams
        (export "output-stream" (type $out (sub resource)))
        (alias outer 1 $error-type (type $e)) (export "error" (type $error (eq $e)))
        (type $failure (variant (case "last-operation-failed" (own $error)) (case "closed")))
        (export "stream-error" (type $stream-error (eq $failure)))
        (export "[method]output-stream.blocking-write-and-flush"
            (func (param "self" (borrow $out)) (param "contents" (list u8)) (result (result (error $stream-error)))))))
    (alias export $streams "output-stream" (type $stream))
    (import "wasi:cli/stdout@0.2.0" (instance $stdout
        (alias outer 1 $stream (type $s)) (export "output-stream" (type $o (eq $s)))
        (export "get-stdout" (func (result (own $o))))))
    (core module $libc (memory (export "mem") 1)
        (func (export "realloc") (param i32 i32 i32 i32) (result i32) (i32.const 1024)))
    (core instance $libc (instantiate $libc))
    (core func $get (canon lower (func $stdout "get-stdout")))
    (core func $write (canon lower (func $streams "[method]output-stream.blocking-write-and-flush")
        (memory (core memory $libc "mem")) (realloc (core func $libc "realloc"))))
    (core module $m (import "h" "get" (func $get (result i32)))
        (import "h" "write" (func $write (param i32 i32 i32 i32)))
        (import "libc" "mem" (memory 1)) (data (i32.const 64) "{\\22a\\22:1}")
        (func (export "run") (result i32)
            (call $write (call $get) (i32.const 64) (i32.const 7) (i32.const 128)) (i32.const 0)))
    (core instance $i (instantiate $m
        (with "h" (instance (export "get" (func $get)) (export "write" (func $write))))
        (with "libc" (instance $libc))))
    (func $run (result (result)) (canon lift (core func $i "run")))
    (instance $run-instance (export "run" (func $run)))
    (export "wasi:cli/run@0.2.0" (instance $run-instance)))"""


def test_a_component_prints_its_result(bench: Bench) -> None:
    report = bench.run(wat(PRINTING))
    assert (report.ending, report.value) == ("returned", {"a": 1}), report.fault


@pytest.mark.parametrize(
    "name", ["wasi:http/outgoing-handler@0.2.0", "evil:host/system@1.0.0", "metier:host/ask@1.0.0"]
)
def test_wasm_10_an_interface_that_is_not_offered_refuses_the_component(bench: Bench, name: str) -> None:
    imports = f'(import "{name}" (instance (export "f" (func))))'
    report = bench.run(wat(RUN.format(imports=imports, code=0)))
    assert report.ending == "not_started"
    assert name in report.fault.message  # type: ignore[union-attr]


def test_res_02_a_component_that_can_wait_for_a_clock_is_refused(bench: Bench) -> None:
    imports = """(import "wasi:io/poll@0.2.0" (instance $poll (export "pollable" (type (sub resource)))))
        (alias export $poll "pollable" (type $pollable))
        (import "wasi:clocks/monotonic-clock@0.2.0" (instance
            (alias outer 1 $pollable (type $p)) (export "pollable" (type $q (eq $p)))
            (export "subscribe-duration" (func (param "when" u64) (result (own $q))))))"""
    report = bench.run(wat(RUN.format(imports=imports, code=0)))
    assert report.ending == "not_started"
    assert "preview 1" in report.fault.message  # type: ignore[union-attr]


def test_a_component_is_given_no_folder(bench: Bench, tmp_path: Path) -> None:
    report = bench.run(wat(RUN.format(imports="", code=0)), places=(Place(path=str(tmp_path)),))
    assert report.ending == "not_started"
    assert "preview 1" in report.fault.message  # type: ignore[union-attr]


SOCKET = (
    f"(component\n{SOCKET_IMPORTS}"
    + """    (core module $libc (memory (export "mem") 1))
    (core instance $libc (instantiate $libc))
    (core func $network-of (canon lower (func $own "instance-network")))
    (core func $new (canon lower (func $create "create-tcp-socket") (memory (core memory $libc "mem"))))
    (core func $connect (canon lower (func $tcp "[method]tcp-socket.start-connect") (memory (core memory $libc "mem"))))
    (core module $m
        (import "h" "network" (func $network (result i32))) (import "h" "new" (func $new (param i32 i32)))
        (import "h" "connect" (func $connect
            (param i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32 i32)))
        (import "libc" "mem" (memory 1))
        (func (export "connect") (param i32) (result i32)
            (call $new (i32.const 0) (i32.const 64))
            (if (i32.load8_u (i32.const 64)) (then (return (i32.add (i32.const 1000) (i32.load8_u (i32.const 68))))))
            (call $connect (i32.load (i32.const 68)) (call $network) (i32.const 0) (local.get 0)
                (i32.const 127) (i32.const 0) (i32.const 0) (i32.const 1)
                (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 0) (i32.const 128))
            (if (i32.load8_u (i32.const 128)) (then (return (i32.add (i32.const 2000) (i32.load8_u (i32.const 129))))))
            (i32.const 0)))
    (core instance $i (instantiate $m
        (with "h" (instance (export "network" (func $network-of)) (export "new" (func $new))
            (export "connect" (func $connect))))
        (with "libc" (instance $libc))))
    (func (export "connect") (param "port" u32) (result u32) (canon lift (core func $i "connect"))))"""
)
ACCESS_DENIED = 1


def test_no_address_can_be_reached_not_even_our_own(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        port = server.getsockname()[1]
        socket.create_connection(("127.0.0.1", port)).close()  # the host gets through
        server.accept()[0].close()
        report = bench.run(wat(SOCKET), "connect", {"port": port})
        assert report.ending == "returned", report.fault
        assert report.value in (1000 + ACCESS_DENIED, 2000 + ACCESS_DENIED)
        with pytest.raises(TimeoutError):
            server.accept()
