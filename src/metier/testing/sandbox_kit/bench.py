"""Where a behaviour is tried out: runs an act in the sandbox and bare, and notes what did not hold."""

# ruff: noqa: ASYNC110
# What happens outside tells nobody, so it is looked at again and again.

import logging
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast, final

import anyio
from msgspec import Struct
from msgspec.structs import replace

from metier.model.guarantee import Guarantee
from metier.model.job import Job, Place, Report
from metier.model.permission import PermissionSet
from metier.model.ports import Host
from metier.model.skill import Limits
from metier.sandbox.protocol import Sandbox
from metier.testing.sandbox_kit import leftovers
from metier.testing.sandbox_kit.backend import Backend
from metier.testing.sandbox_kit.guest import Bare, Guest, Prepared
from metier.testing.sandbox_kit.probes_python import NativeGuest

_LOG: Final = logging.getLogger("metier.testing")
TORTURE: Final = bool(os.environ.get("METIER_TORTURE"))
"""Whether to try as often as a night allows, not as often as a few minutes do."""
FLAT_BYTES: Final = 50 << 20
"""How much the host may grow while a guest does its worst."""
LATE_SECONDS: Final = 1.0
_PLAIN: Final = NativeGuest()
"""A program that can do everything there is to do."""


class KitFailure(AssertionError):
    """The behaviour could not be tried, or does not hold."""


@final
class Broken(Struct, frozen=True, kw_only=True):
    """Something that had to be seen and was not."""

    what: str
    """A short name, by which a known gap refers to it."""
    seen: str

    def __str__(self) -> str:
        return f"{self.what}: {self.seen}"


@final
class Bench:
    """For one behaviour and one backend. Its folder is empty at the start."""

    def __init__(
        self,
        sandbox: Sandbox,
        backend: Backend,
        folder: str,
        *,
        proven: frozenset[Guarantee] = frozenset(),
    ) -> None:
        self.sandbox: Final = sandbox
        self.backend: Final = backend
        self.guest: Final = backend.guest
        self.promises: Final = sandbox.guarantees() - backend.withhold
        self.proven: Final = proven
        """Every guarantee that some behaviour of the kit would find broken."""
        self.broken: Final[list[Broken]] = []
        self.controls: Final[list[str]] = []
        """What was seen to happen where nothing prevents it."""
        self._folder = folder
        self._number = 0
        self._starts = False

    # What a behaviour needs

    def folder(self, name: str) -> str:
        """A new folder of the host's, real and absolute."""
        self._number += 1
        path = os.path.join(os.path.realpath(self._folder), f"{name}{self._number}")
        os.mkdir(path)
        return path

    def file(self, folder: str, name: str, text: str) -> str:
        path = os.path.join(folder, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def times(self, few: int, many: int) -> int:
        """How often to try: `few` as a rule, `many` under torture."""
        return many if TORTURE else few

    def expect(self, what: str, holds: bool, seen: object) -> None:
        """Note that something must be so; `seen` says what was found."""
        if not holds:
            self.broken.append(Broken(what=what, seen=_shown(seen)))

    def need(self, what: str, holds: bool, seen: object) -> None:
        """As `expect`, where going on would make no sense."""
        if not holds:
            raise KitFailure(f"{what}: {_shown(seen)}")

    def prove(self, holds: bool, seen: object) -> None:
        """The control: what is forbidden does happen where nothing prevents it. Else to try it shows nothing."""
        self.need("control", holds, seen)
        self.controls.append(_shown(seen))

    def note(self, what: str) -> None:
        """Say that this machine gives no chance to try something; what is tried in its place is another matter."""
        _LOG.warning("%s: %s", self.backend.name, what)

    # Runs

    def job(
        self,
        prepared: Prepared,
        *,
        limits: Limits | None = None,
        places: Sequence[Place] = (),
        permissions: PermissionSet | None = None,
        **more: Any,
    ) -> Job:
        """A job that needs everything the backend promises."""
        own = (Place(path=self.folder("new")),) if self.backend.always_new else ()
        given = permissions or PermissionSet()
        self._number += 1
        return Job(
            call_id=f"kit-{self._number}",
            entry=prepared.entry,
            arguments=prepared.arguments,
            bundle=prepared.bundle,
            binaries=prepared.binaries,
            places=tuple(sorted({*prepared.places, *places, *own})),
            permissions=replace(given, hosts=given.hosts | frozenset(prepared.hosts)),
            limits=limits or Limits(timeout=10.0),
            needs=self.promises,
            **more,
        )

    async def run(
        self,
        act: str,
        params: Mapping[str, Any] | None = None,
        *,
        at_load: bool = False,
        host: Host | None = None,
        places: Sequence[Place] = (),
        cwd: str = "",
        environment: Mapping[str, str] | None = None,
        hosts: Sequence[str] = (),
        **limits: Any,
    ) -> Report:
        """Run an act in the sandbox. Limits by name; ten seconds where none is given."""
        prepared = self.guest.prepare(act, params or {}, self.folder("bundle"), at_load=at_load)
        job = self.job(
            prepared,
            limits=limits_of(limits),
            places=places,
            cwd=cwd,
            environment=dict(environment or {}),
            host=host,
            permissions=PermissionSet(hosts=frozenset(hosts)),
        )
        return await self.sandbox.run(job)

    async def value(self, act: str, params: Mapping[str, Any] | None = None, **more: Any) -> Any:
        """What an act said in the sandbox; it has to come to its end."""
        report = await self.run(act, params, **more)
        self.need(f"{act} runs", report.ending == "returned", report)
        return self.guest.said(report)

    def said(self, report: Report) -> dict[str, Any]:
        """What an act said, by name; nothing when it did not get that far."""
        said = self.guest.said(report)
        return cast("dict[str, Any]", said) if isinstance(said, dict) else {}

    async def bare(
        self,
        act: str,
        params: Mapping[str, Any] | None = None,
        *,
        cwd: str = "",
        seconds: float = 20.0,
        environment: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> Bare:
        """Run an act outside. Where the language has no such act, a program does it: then that is what is refused."""
        cwd = cwd or self.folder("bare")
        around = {"PATH": "/usr/bin:/bin", "HOME": cwd, "TMPDIR": cwd, **(environment or {})}
        return await self._outside(act).bare(
            act, params or {}, cwd=cwd, seconds=seconds, environment=around, stdin=stdin
        )

    def _outside(self, act: str) -> Guest | NativeGuest:
        return _PLAIN if act in self.guest.absent else self.guest

    def certain(self, act: str) -> frozenset[str]:
        """What of an act succeeds outside on every machine."""
        return frozenset(self._outside(act).certain[act])

    async def control(self, act: str, params: Mapping[str, Any], **more: Any) -> Any:
        """What an act says outside, where it has to come to its end. What that shows is for `prove` to say."""
        bare = await self.bare(act, params, **more)
        self.need(f"{act} outside", bare.exit_code == 0 and bare.value is not None, bare)
        return bare.value

    async def absent(self, act: str, params: Mapping[str, Any] | None = None) -> bool:
        """Whether the language has no such act. Then it was tried, and refused inside."""
        if act not in self.guest.absent:
            return False
        for way in self.guest.ways.get(act, ({},)):
            report = await self.run(act, {**(params or {}), **way})
            refused = (
                self.said(report).get("did") == []
                if report.ending == "returned"
                else report.ending in ("raised", "not_started")
            )
            self.expect("absent", refused, report)
            await self._others_start(report)
        return True

    async def _others_start(self, report: Report) -> None:
        """What was not started was refused for what it is only where anything else is started."""
        if report.ending == "not_started" and not self._starts:
            self._starts = True
            echo = await self.run("echo")
            self.expect("nothing starts", echo.ending == "returned", echo)

    async def attack(
        self, act: str, inside: Mapping[str, Any], outside: Mapping[str, Any], **more: Any
    ) -> Report:
        """Try several things outside, where the certain ones have to succeed, then inside, where none may."""
        await self.attack_outside(act, outside)
        return await self.attack_inside(act, inside, **more)

    async def attack_outside(self, act: str, params: Mapping[str, Any]) -> None:
        did = (await self.control(act, params))["did"]
        certain = self.certain(act)
        self.prove(bool(certain) and certain <= set(did), f"of {sorted(certain)} {did} succeeded outside")

    async def attack_inside(self, act: str, params: Mapping[str, Any], **more: Any) -> Report:
        first, *others = self.guest.ways.get(act, ({},))
        report = await self._attacked(act, {**params, **first}, **more)
        for way in others:
            report = await self._attacked(act, {**params, **way}, **more)
        return report

    async def _attacked(self, act: str, params: Mapping[str, Any], **more: Any) -> Report:
        report = await self.run(act, params, **more)
        if act in self.guest.absent and report.ending in ("raised", "not_started"):
            await self._others_start(report)
            return report
        did = self.said(report).get("did")
        self.expect(f"{act} inside", did is not None, report)
        for name in did or ():
            self.expect(str(name), False, f"{name} succeeded inside")
        return report

    async def gone(self, before: leftovers.Seen, what: str) -> None:
        """Within a second nothing more is left than there was."""
        new = await settled(before)
        self.expect(what, not new, "; ".join(new))


def limits_of(given: Mapping[str, Any]) -> Limits:
    """Limits by name; ten seconds where none is given."""
    every: dict[str, Any] = {"timeout": 10.0, **given}
    return Limits(**every)


async def settled(before: leftovers.Seen, *, seconds: float = 1.0) -> list[str]:
    """What is still more than before after at most `seconds`."""
    give_up = time.monotonic() + seconds
    while (new := leftovers.look().more_than(before)) and time.monotonic() < give_up:
        await anyio.sleep(0.02)
    return new


@final
class Heart:
    """Notes how long the host's loop was ever kept from going on.

    Time in which it was ready and the machine ran others instead is the machine's, not the host's, and is not counted.
    """

    def __init__(self) -> None:
        self.longest = 0.0

    async def beat(self) -> None:
        """Until cancelled."""
        last, stood = time.monotonic(), _stood_in_line()
        while True:
            await anyio.sleep(0.05)
            now, standing = time.monotonic(), _stood_in_line()
            self.longest = max(self.longest, now - last - 0.05 - (standing - stood))
            last, stood = now, standing


def _stood_in_line() -> float:
    """How many seconds this thread was ready to run, and did not; none on a kernel that does not say."""
    try:
        with open("/proc/thread-self/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) / 1e9
    except (OSError, IndexError, ValueError):
        return 0.0


def _shown(seen: object) -> str:
    return str(seen)[:1_500]
