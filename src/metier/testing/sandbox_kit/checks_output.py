"""Behaviours 27 to 34: what goes in, what comes out, and how an end is told."""

import signal
from contextlib import suppress
from typing import Any, final

import msgspec
from msgspec import Struct

from metier.model.job import Report
from metier.testing.sandbox_kit import leftovers
from metier.testing.sandbox_kit.behaviour import behaviour
from metier.testing.sandbox_kit.bench import Bench
from metier.testing.sandbox_kit.checks_host import Noting
from metier.testing.sandbox_kit.checks_size import flat, stopped_for_memory
from metier.testing.sandbox_kit.checks_time import warm

CAP = 65_536


async def output_is_capped_and_marked_truncated(bench: Bench) -> None:
    control = await bench.bare("flood", {"mb": 1})
    written = max(len(control.stdout), len(control.stderr))
    bench.prove(written >= 1 << 20, written)
    await warm(bench)
    before = leftovers.memory_bytes()
    report = await bench.run("flood", {"mb": 24}, output_bytes=CAP)
    bench.expect("goes_on", report.ending == "returned", report.ending)
    await _capped(bench, report)
    endless = await bench.run("flood", {"mb": 0}, timeout=0.5, output_bytes=CAP)
    # A backend may also lose its patience before the time is up. What has no end returns only when it is broken off.
    bench.expect("ended", endless.ending in ("timed_out", "bad_result", "returned"), endless.ending)
    bench.expect("in_time", endless.usage.seconds < 1.5, endless.usage)
    await _capped(bench, endless)
    await flat(bench, before)


async def _capped(bench: Bench, report: Report) -> None:
    kept = _kept(bench, report)
    bench.expect("capped", kept <= CAP, f"{kept} bytes kept")
    bench.expect("kept", kept >= CAP // 2, f"only {kept} bytes kept")
    bench.expect("marked", report.truncated, "not marked as truncated")
    bench.expect("counted", report.usage.output_bytes > CAP, report.usage)


def _kept(bench: Bench, report: Report) -> int:
    """Bytes of the longer output; of what was given back where there is none."""
    outputs = (
        (report.stdout, report.stderr) if report.stdout or report.stderr else (bench.guest.shown(report),)
    )
    return max(len(each.encode()) for each in outputs)


async def large_input_and_output_below_the_cap_arrive_whole(bench: Bench) -> None:
    text = "".join(chr(0x20 + number % 90) for number in range(100_000))
    control = await bench.bare("talk", {"text": text})
    whole = control.value == {"text": text} or text.encode() in control.stdout + control.stderr
    bench.prove(whole, len(control.stdout))
    for _ in range(3):
        report = await bench.run("talk", {"text": text})
        said = bench.guest.said(report)
        bench.expect("both_ways", said == {"text": text}, report.ending)
        bench.expect("output", text in bench.guest.shown(report), len(report.stdout))
        bench.expect("whole", not report.truncated, "marked as truncated")


async def stdin_is_closed(bench: Bench) -> None:
    control = await bench.bare("read_input", stdin=b"typed")
    bench.prove(control.value is not None and control.value["first"] == 5, control)
    report = await bench.run("read_input", timeout=5.0)
    said = bench.guest.said(report)
    refused = said["read"] == 0 if report.ending == "returned" else report.ending == "raised"
    bench.expect("nothing", refused, report)
    if await bench.absent("read_frames"):
        return
    for by in ("library", "descriptor"):
        host = Noting("a word that nobody else says")
        report = await bench.run("read_frames", {"word": host.name, "by": by}, host=host, timeout=2.0)
        bench.need("asked", bool(host.asked), report)
        bench.expect(f"frames_by_{by}", bench.said(report).get("did") == [], report)


async def utf8_survives_and_bad_bytes_do_not_crash(bench: Bench) -> None:
    text = "a\u00e9\u20ac\ufffd\U0001f600\U0010fffd \u202e\u0007\u2028 end"
    raw = bytes.fromhex("61ff62c328eda080f49080800063")
    control = await bench.bare("write", {"hex": raw.hex()})
    bench.prove(raw in control.stdout + control.stderr, control)
    bench.expect("arguments", await bench.value("echo", {"text": text}) == {"text": text}, "it changed")
    nul = await bench.run("echo", {"text": "a\0b"})
    bench.expect("nul", nul.ending != "not_started" and bench.guest.said(nul) == {"text": "a\0b"}, nul)
    bad = await bench.run("write", {"hex": raw.hex()})
    bench.expect("bad_bytes", bad.ending == "returned" and "a\ufffdb" in bench.guest.shown(bad), bad)
    cut = await bench.run("write", {"hex": "e282ac" * 100}, output_bytes=100)
    kept = _kept(bench, cut)
    bench.expect("cut", cut.ending in ("returned", "bad_result") and kept <= 102, cut)


def _told(report: Report) -> tuple[object, ...]:
    return report.ending, report.exit_code, report.signal


async def exit_code_signal_and_limit_are_told_apart(bench: Bench) -> None:
    ends: dict[str, Report] = {
        "good": await bench.run("echo"),
        "late": await bench.run("loop", timeout=0.3),
        "memory": await bench.run("memory", {"kind": "heap", "mb": 400}, memory_mb=96),
    }
    bench.expect("good", ends["good"].ending == "returned", ends["good"])
    bench.expect("late", ends["late"].ending == "timed_out", ends["late"])
    bench.expect("memory", stopped_for_memory(bench, ends["memory"], 400), ends["memory"])
    for code in (3, 137):
        report = ends[f"exit {code}"] = await bench.run("end", {"how": "exit", "code": code})
        bench.expect(f"exit_{code}", report.exit_code == code, report)
    if not await bench.absent("crash", {"signal": int(signal.SIGABRT)}):
        machine_code = "system_calls" not in bench.guest.absent
        # An engine may take a SIGSEGV that somebody sent for one of its own tricks.
        for number in (signal.SIGABRT, signal.SIGKILL, *((signal.SIGSEGV,) if machine_code else ())):
            report = ends[f"signal {number}"] = await bench.run("crash", {"signal": int(number)})
            bench.expect(f"signal_{number}", (report.ending, report.signal) == ("signalled", number), report)
    if bench.guest.burns_fuel:
        ends["fuel"] = await bench.run("loop", fuel=1_000_000)
        bench.expect("fuel", ends["fuel"].ending == "out_of_fuel", ends["fuel"])
    told = [_told(each) for each in ends.values()]
    bench.expect("apart", len(set(told)) == len(told), told)


async def ending_without_a_result_is_a_failure(bench: Bench) -> None:
    for code in (0, 3):
        control = await bench.bare("end", {"how": "exit", "code": code})
        bench.prove(control.exit_code == code and control.value is None, control)
    silent = bench.guest.leaves_silent
    for how, code in (("exit", 0), ("exit", 3), ("leave", 0)):
        report = await bench.run("end", {"how": how, "code": code})
        if not bench.guest.bridged:
            bench.expect("exit", (report.ending == "returned") == (code == 0), report)
            continue
        bench.expect("no_result", report.ending in (silent if code == 0 else silent | {"exited"}), report)
    raised = await bench.run("end", {"how": "raise", "text": "that was all"})
    bench.expect("raised", raised.ending in ("raised", "exited") and raised.value is None, raised)


async def a_forged_result_is_not_taken(bench: Bench) -> None:
    control = await bench.bare("forge", {"on_bridge": False, "with_key": False})
    bench.prove(_believed(control.stdout) == "forged", control)
    if await bench.absent("forge"):
        return
    for on_bridge, with_key in ((False, False), (True, False), (True, True)):
        params: dict[str, Any] = {"on_bridge": on_bridge, "with_key": with_key}
        report = await bench.run("forge", params)
        bench.expect("forged", bench.guest.said(report) != "forged", report)
        # Where code prints on the bridge's own descriptor, what it prints is output and cannot pass for a message.
        if on_bridge and bench.guest.name != "javascript":
            bench.expect("reported", [each.kind for each in report.violations] == ["forged_message"], report)
            bench.expect("stopped", report.ending == "stopped", report)
        else:
            bench.expect("own", bench.guest.said(report) == "true" and not report.violations, report)


def _believed(written: bytes) -> object:
    """What one takes for the result who listens to whatever is written, and asks nobody for a key."""
    for line in written.splitlines():
        with suppress(msgspec.DecodeError, UnicodeDecodeError):
            return msgspec.json.decode(line, type=_Answer).result
    return None


@final
class _Answer(Struct):
    id: int
    result: object


PLAIN: dict[str, object] = {"text": "plain", "proto": {"__proto__": {"polluted": True}, "constructor": 1}}


async def _odd_outside(bench: Bench) -> None:
    """The kinds are what they are called: outside, too, the plain ones can be written down, and the odd ones cannot."""
    for kind, plain in PLAIN.items():
        control = await bench.bare("odd_result", {"kind": kind, "bytes": 1})
        bench.prove(control.value == plain, control)
    for kind in ("object", "set", "cycle", "not_a_number", "bytes", "half_a_character", "patched"):
        control = await bench.bare("odd_result", {"kind": kind, "bytes": 1})
        bench.prove(control.exit_code is not None and control.value is None, f"{kind}: {control}")
    control = await bench.bare("odd_result", {"kind": "long", "bytes": 1 << 20})
    bench.prove(len(control.stdout) > 1 << 20, len(control.stdout))


async def only_plain_data_comes_back(bench: Bench) -> None:
    await _odd_outside(bench)
    if await bench.absent("odd_result", {"kind": "set"}) or not bench.guest.bridged:
        return
    kinds = ("object", "set", "cycle", "deep", "not_a_number", "bytes", "long", "half_a_character")
    for kind in (*kinds, "great_number", "text", "proto", "patched"):
        report = await bench.run("odd_result", {"kind": kind, "bytes": 1 << 20})
        said = bench.guest.said(report)
        if kind in PLAIN:
            bench.expect(kind, said == PLAIN[kind], report)
        else:
            typed = report.ending in ("bad_result", "raised", "out_of_memory") and report.value is None
            typed = typed or (report.ending == "returned" and isinstance(said, bench.guest.odd_as))
            # Who changes the tools that results are made with may fail in its own way, or not be able to.
            own = kind == "patched" and (report.ending == "stopped" or said == "patched")
            bench.expect(kind, typed or own, report)
        bench.expect("apart", "ran in the host" not in str(report.value), report)


BEHAVIOURS = (
    behaviour(27, output_is_capped_and_marked_truncated, "RES-08", "output_bounded"),
    behaviour(28, large_input_and_output_below_the_cap_arrive_whole, "RES-08"),
    behaviour(29, stdin_is_closed, "LNX-05 JS-12"),
    behaviour(30, utf8_survives_and_bad_bytes_do_not_crash, "JS-13"),
    behaviour(31, exit_code_signal_and_limit_are_told_apart, "RES-01 RES-09 WASM-06", control="fault"),
    behaviour(32, ending_without_a_result_is_a_failure, "JS-15"),
    behaviour(33, a_forged_result_is_not_taken, "JS-12", "violations_seen"),
    behaviour(34, only_plain_data_comes_back, "JS-11 JS-13 PY-07"),
)
