"""The acts as WASM. Each function writes one program: it gets the writer and the act's parameters."""

import json
import os
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from metier.testing.sandbox_kit.wat import ALL, BUFFER, READ, WRITE, Wat

Act: TypeAlias = Callable[[Wat, Mapping[str, Any]], str]
_NS: Final = 1_000_000_000
_FOLDER, _CREATE = 2, 1
MARK: Final = "/tmp/mark"  # noqa: S108  as a module calls the folder that is its own


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
        "(drop (call $slurp))"
        + wat.say('{"read":')
        + "(call $number (i64.extend_i32_u (call $slurp)))"
        + wat.say("}")
    )


def burn(wat: Wat, params: Mapping[str, Any]) -> str:
    wat.use("now", "out", "sleep")
    stay = f"(call $sleep (i64.const {60 * _NS}))" if params["stay"] else ""
    return (
        f"(local.set $at (memory.grow (i32.const {params['mb'] * 16})))"
        f" (memory.fill (i32.mul (local.get $at) (i32.const 65536)) (i32.const 1) (i32.const {params['mb'] << 20}))"
        f" (local.set $until (i64.add (call $now) (i64.const {int(params['cpu'] * _NS)})))"
        " (loop $more (br_if $more (i64.lt_u (call $now) (local.get $until))))"
        f" (call $out (i32.const 2) (i32.const 1048576) (i32.const {params['output']})) {stay}"
    ) + wat.say('"burned"')


def _make(wat: Wat, path: str) -> str:
    wat.use("open")
    return f"(i32.ge_s (call $open {wat.text(path)} (i32.const 1) (i64.const {WRITE})) (i32.const 0))"


def break_itself(wat: Wat, params: Mapping[str, Any]) -> str:
    ending = "unreachable" if params["crash"] else "(loop $again (br $again))"
    return f"(drop {_make(wat, 'mark')}) {ending}"


def look_for_mark(wat: Wat, params: Mapping[str, Any]) -> str:
    wat.use("number", "did")
    wat.call("random_get")
    found = f"(if {wat.opens(MARK)} (then (call $did {wat.text('mark')})))"
    numbers = (
        "(drop (call $random_get (i32.const 800) (i32.const 8)))"
        " (call $number (i64.extend_i32_u (i32.load (i32.const 800))))"
    )
    leave = f"(drop {_make(wat, MARK)})" if params["leave"] else ""
    more = "(call $number (i64.extend_i32_u (i32.load (i32.const 804))))"
    told = wat.say('],"module":false,"name":false,"variable":false,"random":[')
    return "\n".join([wat.say('{"files":['), found, told, numbers, wat.say(","), more, wat.say("]}"), leave])


def environment(wat: Wat, params: Mapping[str, Any]) -> str:
    """Each `NAME=VALUE` as JSON; what would need a sign before it is written as a question mark."""
    wat.use("out")
    wat.call("environ_get", "environ_sizes_get")
    colon, comma, quote = wat.text('":"'), wat.text('",'), wat.text('"')
    return (
        wat.say('{"seen":[],"variables":{')
        + f"""(drop (call $environ_sizes_get (i32.const 900) (i32.const 904)))
        (drop (call $environ_get (i32.const {BUFFER}) (i32.const {BUFFER + 65_536})))
        (local.set $at (i32.const {BUFFER + 65_536}))
        (block $end (loop $each (br_if $end (i32.ge_u (local.get $i) (i32.load (i32.const 900))))
            (call $say {quote}) (local.set $seen (i32.const 0))
            (block $over (loop $sign
                (local.set $byte (i32.load8_u (local.get $at)))
                (br_if $over (i32.eqz (local.get $byte)))
                (if (i32.and (i32.eq (local.get $byte) (i32.const 61)) (i32.eqz (local.get $seen)))
                    (then (local.set $seen (i32.const 1)) (call $say {colon}))
                    (else
                        (if (i32.or (i32.lt_u (local.get $byte) (i32.const 32))
                                (i32.or (i32.eq (local.get $byte) (i32.const 34)) (i32.eq (local.get $byte) (i32.const 92))))
                            (then (i32.store8 (local.get $at) (i32.const 63))))
                        (call $say (local.get $at) (i32.const 1))))
                (local.set $at (i32.add (local.get $at) (i32.const 1))) (br $sign)))
            (local.set $at (i32.add (local.get $at) (i32.const 1)))
            (local.set $i (i32.add (local.get $i) (i32.const 1)))
            (if (i32.lt_u (local.get $i) (i32.load (i32.const 900))) (then (call $say {comma})) (else (call $say {quote})))
            (br $each)))"""
        + wat.say("}}")
    )


def here(wat: Wat, params: Mapping[str, Any]) -> str:
    wat.use("open", "did")
    body = [f"(if (i32.eqz {_make(wat, params['name'])}) (then unreachable))"] if params.get("name") else []
    body += [
        wat.say('{"cwd":".","files":['),
        f"(if {wat.opens('secret')} (then (call $did {wat.text('secret')})))",
    ]
    return "\n".join([*body, wat.say("]}")])


def read_outside(wat: Wat, params: Mapping[str, Any]) -> str:
    file, pid = params["file"], params["pid"]
    folder = os.path.dirname(file)
    wat.use("open")
    wat.call("path_unlink_file")
    return wat.tries(
        {
            "open": wat.opens(file),
            "list": wat.opens(folder, flags=_FOLDER),
            "passwords": wat.opens("/etc/passwd"),
            "home": wat.opens(params["home"], flags=_FOLDER),
            "environment_of_another": wat.opens(f"/proc/{pid}/environ"),
            "root_of_another": wat.opens(f"/proc/{pid}/root{file}"),
            "write": wat.opens(file, rights=WRITE),
            "create": wat.opens(f"{folder}/made", flags=_CREATE, rights=WRITE),
            "remove": _path(wat, "path_unlink_file", f"{folder}/removable"),
        }
    )


def _path(wat: Wat, name: str, path: str, *more: str) -> str:
    """Whether a call that takes a folder and a path in it succeeds."""
    wat.use("at")
    wat.call(name)
    text = wat.text(path)
    address, length = text.split(") (", 1)
    rest = f"(i32.add {address}) (global.get $rel)) (i32.sub ({length} (global.get $rel))"
    folder = f"(local.tee $at (call $at {text}))"
    given = f"(call ${name} (local.get $at) {rest} {' '.join(more)})"
    return (
        f"(if (result i32) (i32.lt_s {folder} (i32.const 0)) (then (i32.const 0)) (else (i32.eqz {given})))"
    )


def exists(wat: Wat, params: Mapping[str, Any]) -> str:
    return wat.tries({"open": wat.opens(params["file"])})


def links(wat: Wat, params: Mapping[str, Any]) -> str:
    inside: str = params["inside"]
    file: str = params["file"]
    outside, name = os.path.split(file)
    wat.call("path_symlink")

    def linked(target: str, made: str, read: str) -> str:
        text, path = wat.text(target), wat.text(made)
        wat.use("at", "open")
        address, length = path.split(") (", 1)
        rest = f"(i32.add {address}) (global.get $rel)) (i32.sub ({length} (global.get $rel))"
        make = f"(drop (call $path_symlink {text} (call $at {path}) {rest}))"
        return f"(block (result i32) {make} {wat.opens(read)})"

    return wat.tries(
        {
            "shipped_to_file": wat.opens(f"{inside}/shipped_file"),
            "shipped_to_folder": wat.opens(f"{inside}/shipped_folder/{name}"),
            "listed_through_shipped": wat.opens(f"{inside}/shipped_folder/", flags=_FOLDER),
            "created_through_shipped": wat.opens(f"{inside}/shipped_missing", flags=_CREATE, rights=WRITE),
            "dots": wat.opens(f"{inside}/../{os.path.basename(outside)}/{name}"),
            "made_to_file": linked(file, f"{inside}/made_file", f"{inside}/made_file"),
            "made_relative": linked(
                os.path.relpath(file, inside), f"{inside}/made_relative", f"{inside}/made_relative"
            ),
            "made_to_folder": linked(outside, f"{inside}/made_folder", f"{inside}/made_folder/{name}"),
        }
    )


def change(wat: Wat, params: Mapping[str, Any]) -> str:
    file = params["file"]
    wat.call("fd_filestat_set_size", "path_filestat_set_times", "path_unlink_file", "path_rename")
    wat.use("open")
    opened = f"(call $open {wat.text(file)} (i32.const 0) (i64.const {ALL}))"
    moved = wat.text(file + ".moved")
    address, length = moved.split(") (", 1)
    rest = f"(i32.add {address}) (global.get $rel)) (i32.sub ({length} (global.get $rel))"
    return wat.tries(
        {
            "write": wat.opens(file, rights=WRITE),
            "truncate": f"(i32.eqz (call $fd_filestat_set_size {opened} (i64.const 0)))",
            "times": _times(wat, file),
            "beside": wat.opens(f"{os.path.dirname(file)}/made", flags=_CREATE, rights=WRITE),
            "rename": _path(wat, "path_rename", file, "(local.get $at)", rest),
            "remove": _path(wat, "path_unlink_file", file),
        }
    )


def _times(wat: Wat, path: str) -> str:
    wat.use("at")
    text = wat.text(path)
    address, length = text.split(") (", 1)
    rest = f"(i32.add {address}) (global.get $rel)) (i32.sub ({length} (global.get $rel))"
    given = f"(call $path_filestat_set_times (local.get $at) (i32.const 0) {rest} (i64.const 1) (i64.const 1) (i32.const 5))"
    return f"(if (result i32) (i32.lt_s (local.tee $at (call $at {text})) (i32.const 0)) (then (i32.const 0)) (else (i32.eqz {given})))"


def descriptors(wat: Wat, params: Mapping[str, Any]) -> str:
    """Those beyond any that folders could have been given."""
    wat.use("number")
    wat.call("fd_fdstat_get")
    return (
        wat.say("[0")
        + "(local.set $i (i32.const 16)) (loop $more"
        + " (if (i32.eqz (call $fd_fdstat_get (local.get $i) (i32.const 900))) (then "
        + wat.say(",")
        + " (call $number (i64.extend_i32_u (local.get $i)))))"
        + " (local.set $i (i32.add (local.get $i) (i32.const 1)))"
        + " (br_if $more (i32.lt_u (local.get $i) (i32.const 1024))))"
        + wat.say("]")
    )


def devices(wat: Wat, params: Mapping[str, Any]) -> str:
    attempts = {path: wat.opens(path) for path in ("/dev/kmsg", "/dev/mem", "/proc/kcore", params["disk"])}
    attempts |= {
        path: wat.opens(path, rights=WRITE)
        for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger")
    }
    attempts["other_processes"] = wat.opens(f"/proc/{params['pid']}/status")
    attempts["/sys"] = wat.opens("/sys/kernel", flags=_FOLDER)
    return wat.tries(attempts)


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
        *(echo, talk, loop, regex, sleep, ask, memory, huge, open_files, fill, recursion, end, flood, write),
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
        *(descriptors, devices, odd_result),
    )
}
MORE: Final = {
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
