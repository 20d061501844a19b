"""The acts as WASM that have to do with files. As in `acts_wasm`."""

import os
from collections.abc import Mapping
from typing import Any, Final

from metier.testing.sandbox_kit.wat import ALL, BUFFER, WRITE, Wat

_FOLDER, _CREATE = 2, 1
_GIVEN, _NOW = 4, 8
"""Which time of the last change is meant."""
MARK: Final = "/tmp/mark"  # noqa: S108  as a module calls the folder that is its own


def _make(wat: Wat, path: str) -> str:
    wat.use("open")
    return f"(i32.ge_s (call $open {wat.text(path)} (i32.const 1) (i64.const {WRITE})) (i32.const 0))"


def break_itself(wat: Wat, params: Mapping[str, Any]) -> str:
    ending = "unreachable" if params["crash"] else "(loop $again (br $again))"
    return f"(drop {_make(wat, 'mark')}) {ending}"


def look_for_mark(wat: Wat, params: Mapping[str, Any]) -> str:
    wat.use("number", "did")
    wat.call("random_get")
    mark = "mark" if params.get("own") else MARK
    found = f"(if {wat.opens(mark)} (then (call $did {wat.text('mark')})))"
    numbers = (
        "(drop (call $random_get (i32.const 800) (i32.const 8)))"
        " (call $number (i64.extend_i32_u (i32.load (i32.const 800))))"
    )
    leave = f"(drop {_make(wat, mark)})" if params["leave"] else ""
    more = "(call $number (i64.extend_i32_u (i32.load (i32.const 804))))"
    told = wat.say('],"module":false,"name":false,"variable":false,"random":[')
    return "\n".join([wat.say('{"files":['), found, told, numbers, wat.say(","), more, wat.say("]}"), leave])


def keep_words(wat: Wat, params: Mapping[str, Any]) -> str:
    """Find, leave and take away a word where no file lies: a module has the times of its own folder for that."""
    wat.use("at")
    wat.call("fd_filestat_get", "fd_filestat_set_times")
    there = f"(call $at {wat.text('./x' if params.get('own') else MARK)})"
    word = params["key"] * 1_000_000_000
    found = (
        f"(i32.and (i32.eqz (call $fd_filestat_get {there} (i32.const 1024)))"
        f" (i64.eq (i64.load (i32.const 1072)) (i64.const {word})))"
    )
    leave = (
        f"(drop (call $fd_filestat_set_times {there} (i64.const 0) (i64.const {word}) (i32.const {_GIVEN})))"
    )
    take = f"(drop (call $fd_filestat_set_times {there} (i64.const 0) (i64.const 0) (i32.const {_NOW})))"
    after = (leave if params["leave"] else "") + (take if params["take"] else "")
    return wat.tries({"times": found}) + after


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


def around(wat: Wat, params: Mapping[str, Any]) -> str:
    """There is nothing between a folder that is given and one that is not, so none of these opens at all."""
    starts = [path for path in params["starts"] if path != os.path.dirname(MARK)]
    attempts = {path: wat.opens(os.path.join(path, "."), flags=_FOLDER) for path in starts}
    return wat.tries(attempts | {path: wat.opens(path) for path in params["files"]})


def make_files(wat: Wat, params: Mapping[str, Any]) -> str:
    own = (os.path.dirname(MARK), *params["own"])
    attempts: dict[str, str] = {}
    for folder in dict.fromkeys(params["folders"]):
        if folder not in own:
            path = os.path.join(folder, "metier-kit-made")
            made = wat.opens(path, flags=_CREATE, rights=WRITE)
            attempts[folder] = f"(i32.and {made} {_path(wat, 'path_unlink_file', path)})"
    return wat.tries(attempts)


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


def stay(wat: Wat, params: Mapping[str, Any]) -> str:
    wat.use("open", "out", "sleep")
    mine = "/tmp/of-a-neighbour"  # noqa: S108  as a module calls the folder that is its own

    def written(path: str, text: str) -> str:
        opened = f"(call $open {wat.text(path)} (i32.const {_CREATE}) (i64.const {WRITE}))"
        return f"(call $out {opened} {wat.text(text)})"

    texts = written(mine, params["secret"]) + written(f"{params['folder']}/where", mine)
    return f"{texts} (call $sleep (i64.const {int(params['seconds'] * 1_000_000_000)}))"


def files_of_others(wat: Wat, params: Mapping[str, Any]) -> str:
    attempts = {"read": wat.opens(params["file"]), "write": wat.opens(params["file"], rights=WRITE)}
    attempts["granted"] = wat.opens(params["granted"], flags=_FOLDER)
    for pid in params["pids"]:
        attempts["by_its_root"] = wat.opens(f"/proc/{pid}/root{params['file']}")
    return wat.tries(attempts)


def devices(wat: Wat, params: Mapping[str, Any]) -> str:
    attempts = {path: wat.opens(path) for path in ("/dev/kmsg", "/dev/mem", "/proc/kcore", params["disk"])}
    attempts |= {
        path: wat.opens(path, rights=WRITE)
        for path in ("/proc/sys/kernel/core_pattern", "/proc/sysrq-trigger")
    }
    attempts["other_processes"] = wat.opens(f"/proc/{params['pid']}/status")
    attempts["/sys"] = wat.opens("/sys/kernel", flags=_FOLDER)
    return wat.tries(attempts)
