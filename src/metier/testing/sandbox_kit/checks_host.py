"""Behaviours 54 to 56: what a guest asks of the host, and what the host notes of it."""

import logging
import os
import signal
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal, final

import anyio

from metier.host.bridge import Bridge
from metier.model.guarantee import Guarantee
from metier.model.job import Place, Report
from metier.model.permission import PermissionSet
from metier.model.ports import Answered, NotAnswered
from metier.testing.sandbox_kit import leftovers
from metier.testing.sandbox_kit.behaviour import behaviour
from metier.testing.sandbox_kit.bench import Bench
from metier.testing.sandbox_kit.checks_files import SECRET
from metier.testing.sandbox_kit.checks_walls import CALLS, OUTSIDE
from metier.testing.sandbox_kit.neighbours import neighbours


@final
class Noting:
    """A host of one call: notes who asked, and answers with its own name."""

    def __init__(self, name: str, answer: NotAnswered | None = None) -> None:
        self.name = name
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._answer = answer

    async def ask(self, method: str, params: dict[str, Any]) -> Answered | NotAnswered:
        self.asked.append((method, params))
        return self._answer or Answered(value=self.name)


async def a_host_call_is_bound_to_its_own_call(bench: Bench) -> None:
    await _neighbour_outside(bench)
    if await bench.absent("ask"):
        return
    hosts = [Noting(f"host {number}") for number in range(12)]
    reports: dict[str, Report] = {}

    async def run(host: Noting) -> None:
        claims: dict[str, Any] = {"asks": [["who", {"skill": "another", "call_id": "another"}]] * 3}
        reports[host.name] = await bench.run("ask", claims, host=host)

    async with anyio.create_task_group() as tasks:
        for host in hosts:
            tasks.start_soon(run, host)
    for host in hosts:
        said = bench.guest.said(reports[host.name])
        bench.expect("own_host", said == [{"value": host.name}] * 3, reports[host.name])
        bench.expect("only_own", len(host.asked) == 3, host.asked)
    nobody = await bench.run("ask", {"asks": [["who", {}]]})
    bench.expect("nobody", bool(_first(bench, nobody).get("name")), nobody)
    await _after_the_end(bench)
    await _through_a_neighbour(bench)
    host = Noting("host")
    badly = await bench.run("ask_badly", host=host)
    said = bench.guest.said(badly)
    bench.expect("bad_refused", badly.ending == "returned" and len(said) >= 3 and all(said), badly)
    bench.expect("bad_unheard", host.asked == [], host.asked)


async def _after_the_end(bench: Bench) -> None:
    """Nothing of a run that is over is answered, whoever of it still asks."""
    host = Noting("host")
    if await bench.absent("ask_late"):
        return
    report = await bench.run("ask_late", host=host)
    bench.expect("over", report.ending == "returned" and bench.guest.said(report) == "over", report)
    heard = len(host.asked)
    bench.need("heard", heard >= 1, "it was never heard, not even before its end")
    await anyio.sleep(0.2)
    bench.expect("late", len(host.asked) == heard, host.asked)


async def _through_a_neighbour(bench: Bench) -> None:
    """While one run waits, another looks for its bridge."""
    if await bench.absent("ask_through_others", {"pids": []}):
        return
    mine, other = Noting("mine"), Noting("other")
    before = leftovers.look().processes
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(partial(bench.run, "sleep", {"seconds": 10}, host=other))
        pids = await neighbours(bench, before)
        report = await bench.run("ask_through_others", {"pids": pids}, host=mine)
        bench.expect("neighbour", report.ending == "returned" and not bench.said(report).get("did"), report)
        tasks.cancel_scope.cancel()
    bench.expect("neighbour_unheard", mine.asked == other.asked == [], [mine.asked, other.asked])


@contextmanager
def _another() -> Generator[tuple[int, int]]:
    """A program whose third descriptor is a pipe: its number, and the end that we hear."""
    heard, bridge = os.pipe()
    os.set_blocking(heard, False)
    actions = [(os.POSIX_SPAWN_DUP2, bridge, 3)]
    pid = os.posix_spawn("/bin/sleep", ["sleep", "30"], {}, file_actions=actions)
    try:
        yield pid, heard
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(heard)
        os.close(bridge)


async def _neighbour_outside(bench: Bench) -> None:
    """Without a wall a program writes on a pipe that another one has, and is heard where that one would be."""
    with _another() as (pid, heard):
        said = await bench.control("ask_through_others", {"pids": [pid], "only": True})
        bench.prove(f"{pid}_3" in said["did"] and b"stolen" in os.read(heard, 1_000), said)


def _first(bench: Bench, report: Report) -> dict[str, Any]:
    """What came of the first request, told by name."""
    said: Any = bench.guest.said(report)
    return dict(said[0]) if said else {}


async def a_host_error_crosses_as_name_and_message_only(bench: Bench) -> None:
    raised = ""
    try:
        await Failing().answer({})
    except RuntimeError as error:
        raised = repr(error)
    bench.prove(SECRET in raised and __file__ in raised, raised)
    if await bench.absent("ask"):
        return
    host = Noting("host", NotAnswered(name="NotThere", message="there is no such thing"))
    report = await bench.run("ask", {"asks": [["find", {}]]}, host=host)
    error = _first(bench, report)
    shown = str(error)
    bench.expect("name", error.get("name") == "NotThere", report)
    bench.expect("message", "there is no such thing" in shown, report)
    bench.expect("nothing_more", "Traceback" not in shown and "metier/" not in shown, report)
    bench.expect("no_violation", not report.violations and not report.denials, report)
    await _raised(bench)


@final
class Failing:
    """A service with a fault, whose words tell what nobody may know."""

    def allowed(self, permissions: PermissionSet) -> bool:
        return True

    async def answer(self, params: dict[str, Any]) -> Answered | NotAnswered:
        raise RuntimeError(f"{SECRET} in {__file__}")

    async def aclose(self) -> None:
        """Nothing is held."""


async def _raised(bench: Bench) -> None:
    """As the runtime has it: whatever a service raises, the bridge of the call gives it another name."""
    service = Failing()
    log = logging.getLogger("metier.host")
    before, log.disabled = log.disabled, True
    try:
        async with Bridge("kit", "kit", PermissionSet(), {"find": service, "exec": service}) as bridge:
            report = await bench.run("ask", {"asks": [["find", {}]]}, host=bridge)
    finally:
        log.disabled = before
    bench.expect("raised", _first(bench, report).get("name") == "HostError", report)
    shown = f"{bench.guest.said(report)} {bench.guest.shown(report)} {report.fault}"
    for word in (SECRET, __file__, "RuntimeError", "Traceback"):
        bench.expect("raised_nothing_more", word not in shown, report)


async def a_violation_is_reported_and_an_ordinary_error_is_not(bench: Bench) -> None:
    await bench.attack_outside("system_calls", {"calls": OUTSIDE})
    await _ordinary(bench)
    if not await bench.absent("system_calls", {"calls": {}}):
        for name in ("unshare", "mount", "bpf"):
            report = await bench.run("system_calls", {"calls": {name: CALLS[name]}})
            found = [(each.kind, each.detail) for each in report.violations]
            bench.expect("system_call", found == [("system_call", name)], report)
    if await bench.absent("ask"):
        return
    kinds: tuple[tuple[Literal["violation", "denied", "failed"], str], ...] = (
        ("violation", "stopped"),
        ("denied", "returned"),
        ("failed", "returned"),
    )
    for kind, ending in kinds:
        host = Noting("host", NotAnswered(name="Refused", message="no", kind=kind))
        report = await bench.run("ask", {"asks": [["reach", {}]]}, host=host)
        bench.expect(f"{kind}_ending", report.ending == ending, report)
        for noted, which in ((report.violations, "violation"), (report.denials, "denied")):
            told = [each.kind for each in noted if each.detail]
            bench.expect(f"{kind}_noted", told == (["host_call"] if kind == which else []), report)


async def _ordinary(bench: Bench) -> None:
    """Files that are not there, or not granted, are no violation; nor is a server that says no."""
    if await bench.absent("exists"):
        report = await bench.run("end", {"how": "raise", "text": "no"})
        bench.expect("ordinary", report.ending == "raised" and not report.violations, report)
        private = await bench.run("network", {"tcp": 9})
        told = [each.kind for each in private.violations]
        bench.expect("private", (private.ending, told) == ("stopped", ["egress"]), private)
        return
    work = bench.folder("work")
    places = (Place(path=work),)
    missing = await bench.run("exists", {"file": f"{work}/nothing"}, places=places)
    ungranted = await bench.run("exists", {"file": "/etc/shadow"}, places=places)
    for report in (missing, ungranted):
        bench.expect("ordinary", report.ending == "returned" and not report.violations, report)
    bench.expect("counted", Guarantee.VIOLATIONS_SEEN in bench.promises or not missing.violations, missing)


BEHAVIOURS = (
    behaviour(54, a_host_call_is_bound_to_its_own_call, "JS-18 WASM-09 WASM-11"),
    behaviour(55, a_host_error_crosses_as_name_and_message_only, "WASM-09"),
    behaviour(56, a_violation_is_reported_and_an_ordinary_error_is_not, "LNX-19 LNX-20", "violations_seen"),
)
