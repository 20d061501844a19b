"""The acts as WASM. Each function writes one program: it gets the writer and the act's parameters."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from metier.testing.sandbox_kit.acts_wasm_files import (
    around,
    break_itself,
    change,
    descriptors,
    devices,
    environment,
    exists,
    files_of_others,
    here,
    keep_words,
    links,
    look_for_mark,
    make_files,
    read_outside,
    stay,
)
from metier.testing.sandbox_kit.wat import ALL, BUFFER, READ, WRITE, Wat

Act: TypeAlias = Callable[[Wat, Mapping[str, Any]], str]
_NS: Final = 1_000_000_000
_CREATE: Final = 1


def echo(wat: Wat, params: Mapping[str, Any]) -> str:
    wat.use("slurp", "out")
    return f"(call $say (i32.const {BUFFER}) (call $slurp))"


def talk(wat: Wat, params: Mapping[str, Any]) -> str:
    wat.use("out")
    return f"(call $out (i32.const 2) {wat.text(params['text'])})" + echo(wat, params)


def loop(wat: Wat, params: Mapping[str, Any]) -> str:
    return "(loop $again (br $again))"


def regex(wat: Wat, params: Mapping[str, Any]) -> str:
    """There are none; a long computation in their place."""
    return (
        "(loop $again (local.set $until (i64.rem_u (i64.add (local.get $until) (i64.const 7919)) (i64.const 104729)))"
        " (br_if $again (i64.lt_u (local.get $until) (i64.const 104729))))"
    )


def sleep(wat: Wat, params: Mapping[str, Any]) -> str:
    wat.use("sleep")
    return f"(call $sleep (i64.const {int(params['seconds'] * _NS)}))" + wat.say('"slept"')


def ask(wat: Wat, params: Mapping[str, Any]) -> str:
    wat.use("out")
    body = [wat.say("[")]
    for number, (method, given) in enumerate(params["asks"]):
        request = wat.text(json.dumps({"method": method, "params": given}))
        body.append(wat.say("," if number else " "))
        body.append(f"(local.set $answer (call $ask {request}))")
        body.append(
            "(call $say (i32.wrap_i64 (i64.shr_u (local.get $answer) (i64.const 32)))"
            " (i32.wrap_i64 (local.get $answer)))"
        )
    return "\n".join([*body, wat.say("]")])


def ask_badly(wat: Wat, params: Mapping[str, Any]) -> str:
    """Requests that do not lie in memory, and one that is no JSON; how each was answered."""
    wat.use("out")
    body = [wat.say('["asked"')]
    outside, form = wat.say(',"outside"'), wat.say(',"refused"')
    for at, length in ((0xFFFF_FFF0, 64), (64, 0xFFFF_FFFF), (0xFFFF_FFFF, 0xFFFF_FFFF), (1 << 31, 1 << 20)):
        refused = f"(i64.lt_s (call $ask (i32.const {at}) (i32.const {length})) (i64.const 0))"
        body.append(f"(if {refused} (then {outside}))")
    answer = f"(call $ask {wat.text('no JSON')})"
    body.append(f"(if (i64.gt_s {answer} (i64.const 0)) (then {form}))")
    return "\n".join([*body, wat.say("]")])


def memory(wat: Wat, params: Mapping[str, Any]) -> str:
    wat.use("number")
    pieces = params["mb"] // 4
    grow = (
        "(table.grow $held (ref.null func) (i32.const 524288))"
        if params["kind"] == "mapped"
        else "(memory.grow (i32.const 64))"
    )
    return (
        f"(loop $more (if (i32.lt_u (local.get $i) (i32.const {pieces})) (then"
        f" (local.set $at {grow})"
        " (if (i32.lt_s (local.get $at) (i32.const 0)) (then unreachable))"
        + (
            ""
            if params["kind"] == "mapped"
            else "(memory.fill (i32.mul (local.get $at) (i32.const 65536)) (i32.const 1) (i32.const 4194304))"
        )
        + " (local.set $i (i32.add (local.get $i) (i32.const 1))) (br $more))))"
        + wat.say('{"mb":')
        + "(call $number (i64.extend_i32_u (i32.mul (local.get $i) (i32.const 4))))"
        + wat.say("}")
    )


def huge(wat: Wat, params: Mapping[str, Any]) -> str:
    return wat.tries({"four_gigabytes": "(i32.ge_s (memory.grow (i32.const 60000)) (i32.const 0))"})


def open_files(wat: Wat, params: Mapping[str, Any]) -> str:
    wat.use("open", "number")
    opened = f"(call $open {wat.text('opened')} (i32.const {_CREATE}) (i64.const {READ}))"
    return (
        f"(block $end (loop $more (br_if $end (i32.ge_u (local.get $i) (i32.const {params['most']})))"
        f" (br_if $end (i32.lt_s {opened} (i32.const 0)))"
        " (local.set $i (i32.add (local.get $i) (i32.const 1))) (br $more)))"
        + wat.say('{"why":"","count":')
        + "(call $number (i64.extend_i32_u (local.get $i)))"
        + wat.say("}")
    )


def fill(wat: Wat, params: Mapping[str, Any]) -> str:
    wat.use("open", "number", "out")
    wat.call("path_create_directory", "fd_filestat_set_size", "fd_close")
    base = params["folder"]
    prefix = f"{base}/" if base else ""
    made: list[str] = []
    match params["kind"]:
        case "large":
            most, unit = params["most"], params["mb"] << 20
            for number in range(most):
                path = wat.text(f"{prefix}filled{number}")
                piece = "(i32.const 1048576) (i32.const 1048576)"
                written = f"(call $all (call $open {path} (i32.const 1) (i64.const {WRITE})) {piece} (i32.const {unit >> 20}))"
                made.append(f"(br_if $end (i32.eqz {written}))")
        case "small":
            step = "(local.get $i)"
            name = wat.text(f"{prefix}filled00000000")
            digits = "(call $digits " + name.split(") (")[0] + f") (i32.const {len(prefix) + 6}) {step})"
            opened = f"(call $open {name} (i32.const 1) (i64.const {WRITE}))"
            made.append(
                f"(loop $more {digits} (local.set $at {opened})"
                " (br_if $end (i32.lt_s (local.get $at) (i32.const 0))) (drop (call $fd_close (local.get $at)))"
                " (local.set $i (i32.add (local.get $i) (i32.const 1)))"
                f" (br_if $more (i32.lt_u (local.get $i) (i32.const {params['most'] * 2000}))))"
            )
        case _:
            opened = f"(call $open {wat.text(prefix + 'filled')} (i32.const 1) (i64.const {ALL}))"
            made.append(f"(br_if $end (call $fd_filestat_set_size {opened} (i64.const {1 << 40})))")
    count = f"(local.set $i (i32.const {params['most']}))"
    said = wat.say('{"why":"","made":') + "(call $number (i64.extend_i32_u (local.get $i)))" + wat.say("}")
    return f"(block $end (local.set $i (i32.const 0)) {' '.join(made)} {count}) {said}"


def offered_sockets(wat: Wat, params: Mapping[str, Any]) -> str:
    """What preview 1 has of the network: to accept, send and receive on a socket that somebody must have given."""
    wat.call("sock_accept", "sock_recv", "sock_send", "sock_shutdown")
    asked = {
        "sock_accept": "(i32.const 0) (i32.const 900)",
        "sock_recv": "(i32.const 0) (i32.const 1) (i32.const 0) (i32.const 900) (i32.const 904)",
        "sock_send": "(i32.const 0) (i32.const 1) (i32.const 0) (i32.const 900)",
        "sock_shutdown": "(i32.const 3)",
    }
    return wat.tries(
        {
            f"{name}_{fd}": f"(i32.eqz (call ${name} (i32.const {fd}) {rest}))"
            for name, rest in asked.items()
            for fd in range(8)
        }
    )


def recursion(wat: Wat, params: Mapping[str, Any]) -> str:
    return "(call $deep)"


def end(wat: Wat, params: Mapping[str, Any]) -> str:
    match params["how"]:
        case "raise":
            return "unreachable"
        case "leave":
            return ""
        case _:
            return f"(call $proc_exit (i32.const {params['code']}))"


def flood(wat: Wat, params: Mapping[str, Any]) -> str:
    wat.use("out")
    piece = "(call $out (i32.const 2) (i32.const 1048576) (i32.const 65536))"
    until = (
        f"(br_if $more (i32.lt_u (local.get $i) (i32.const {params['mb'] * 16})))"
        if params["mb"]
        else "(br $more)"
    )
    return (
        "(memory.fill (i32.const 1048576) (i32.const 120) (i32.const 65536))"
        f" (loop $more {piece} (local.set $i (i32.add (local.get $i) (i32.const 1))) {until})"
    ) + wat.say('"done"')


def write(wat: Wat, params: Mapping[str, Any]) -> str:
    wat.use("out")
    return f"(call $out (i32.const 2) {wat.text(bytes.fromhex(params['hex']))})" + wat.say('"written"')


def read_input(wat: Wat, params: Mapping[str, Any]) -> str:
    """What comes in is the arguments of the call; after them there must be an end."""
    wat.use("slurp", "number")
    return (
        wat.say('{"first":')
        + "(call $number (i64.extend_i32_u (call $slurp)))"
        + wat.say(',"read":')
        + "(call $number (i64.extend_i32_u (call $slurp)))"
        + wat.say("}")
    )


def burn(wat: Wat, params: Mapping[str, Any]) -> str:
    wat.use("now", "out", "sleep")
    stay = f"(call $sleep (i64.const {60 * _NS}))" if params["stay"] else ""
    return (
        f"(call $out (i32.const 2) (i32.const 1048576) (i32.const {params['output']}))"
        f" (local.set $at (memory.grow (i32.const {params['mb'] * 16})))"
        f" (memory.fill (i32.mul (local.get $at) (i32.const 65536)) (i32.const 1) (i32.const {params['mb'] << 20}))"
        f" (local.set $until (i64.add (call $now) (i64.const {int(params['cpu'] * _NS)})))"
        " (loop $more (br_if $more (i64.lt_u (call $now) (local.get $until))))"
        f" {stay}"
    ) + wat.say('"burned"')


_ODD: Final[dict[str, bytes]] = {
    "object": b'{"a":', "set": b"[1,2", "cycle": b"[1]]", "deep": b"[" * 100_000, "not_a_number": b"NaN",
    "bytes": b'"\xff"', "half_a_character": b'"\\ud800"', "great_number": b"1e999", "text": b'"plain"',
    "proto": b'{"__proto__":{"polluted":true},"constructor":1}', "patched": b"not json",
}  # fmt: skip


def odd_result(wat: Wat, params: Mapping[str, Any]) -> str:
    if params["kind"] == "long":
        wat.use("out")
        return f"(loop $more {wat.say('x' * 65_536)} (local.set $i (i32.add (local.get $i) (i32.const 1))) (br_if $more (i32.lt_u (local.get $i) (i32.const 20))))"
    return wat.say(_ODD[params["kind"]])


ACTS: Final[dict[str, Act]] = {
    each.__name__: each
    for each in (
        *(
            echo,
            talk,
            loop,
            regex,
            sleep,
            ask,
            ask_badly,
            memory,
            huge,
            open_files,
            fill,
            recursion,
            end,
            flood,
            write,
        ),
        *(
            read_input,
            burn,
            break_itself,
            look_for_mark,
            environment,
            here,
            read_outside,
            exists,
            links,
            change,
        ),
        *(descriptors, devices, odd_result, stay, files_of_others, around, make_files, keep_words),
    )
}
MORE: Final = {
    "ask_badly": '(import "metier" "ask" (func $ask (param i32 i32) (result i64)))',
    "ask": '(import "metier" "ask" (func $ask (param i32 i32) (result i64)))',
    "end": '(import "wasi_snapshot_preview1" "proc_exit" (func $proc_exit (param i32)))',
    "memory": "(table $held 1 funcref)",
    "recursion": "(func $deep (call $deep))",
    "fill": """(func $all (param $fd i32) (param $p i32) (param $n i32) (param $times i32) (result i32)
        (if (i32.lt_s (local.get $fd) (i32.const 0)) (then (return (i32.const 0))))
        (loop $more (if (local.get $times) (then
            (i32.store (i32.const 0) (local.get $p)) (i32.store (i32.const 4) (local.get $n))
            (if (call $fd_write (local.get $fd) (i32.const 0) (i32.const 1) (i32.const 8)) (then (return (i32.const 0))))
            (if (i32.eqz (i32.load (i32.const 8))) (then (return (i32.const 0))))
            (local.set $times (i32.sub (local.get $times) (i32.const 1))) (br $more))))
        (drop (call $fd_close (local.get $fd))) (i32.const 1))
    (func $digits (param $p i32) (param $offset i32) (param $v i32) (local $k i32) (local.set $k (i32.const 8))
        (loop $more
            (local.set $k (i32.sub (local.get $k) (i32.const 1)))
            (i32.store8 (i32.add (i32.add (local.get $p) (local.get $offset)) (local.get $k))
                (i32.add (i32.rem_u (local.get $v) (i32.const 10)) (i32.const 48)))
            (local.set $v (i32.div_u (local.get $v) (i32.const 10)))
            (br_if $more (local.get $k))))""",
}
"""Functions and imports that one act needs besides."""
LOCALS: Final = "(local $i i32) (local $at i32) (local $seen i32) (local $byte i32) (local $answer i64) (local $until i64)"
ALLOC: Final = f"""(global $next (mut i32) (i32.const {BUFFER + 262_144}))
    (func (export "alloc") (param i32) (result i32)
        (global.get $next) (global.set $next (i32.add (global.get $next) (local.get 0))))"""
