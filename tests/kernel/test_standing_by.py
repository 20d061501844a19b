"""A process that stands by for the host role: it takes it where nobody has it, unless it is not to, and says every change once."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import anyio
import pytest

from metier.errors import StateError
from metier.kernel.host_role import Holder
from metier.runtime import standing_by
from metier.runtime.standing_by import StandingBy

OTHER, THIRD, NAMELESS = Holder(pid=101), Holder(pid=202), Holder()


class Hosting:
    """What a process does that is the host."""

    def __init__(self) -> None:
        self.ended = anyio.Event()
        self.told = False


class Scene:
    """Who is the host, as a test says, and the modules of this process, which take the role where nobody has it."""

    def __init__(self, other: Holder | None = None, *, takes: bool = True) -> None:
        self.other = other
        self.fault = ""
        self.hosting: Hosting | None = None
        self.is_it = False
        self.looked = self.tried = 0
        self.faster: Holder | None = None
        """Who takes the role in the moment in which this process tries to."""
        self.refuses = 0
        """So often it cannot be had, though nobody has it when one looks."""
        self.pause = 0.005
        self.said: list[str] = []
        kernel: Any = self
        self.role = StandingBy(kernel, "home", doors=(), say=self.said.append, takes=takes)

    def look(self, _home: str) -> Holder | None:
        self.looked += 1
        if self.fault:
            raise StateError(self.fault, remedy="Wait")
        return self.other

    async def host(self, _doors: object, _say: object) -> None:
        self.tried += 1
        if self.faster is not None:
            self.other, self.faster = self.faster, None
        if self.refuses:
            self.refuses -= 1
        elif self.other is None:
            self.hosting = Hosting()

    async def hosted(self) -> Hosting:
        assert self.hosting is not None
        self.is_it = True
        return self.hosting

    async def loses_it(self, *, told: bool = False) -> None:
        """Once this process knows that it is the host, it is so no longer."""
        with anyio.fail_after(5):
            while not self.is_it:
                await anyio.sleep(0.002)
        assert self.hosting is not None
        ending, self.hosting, self.is_it = self.hosting, None, False
        ending.told = told
        ending.ended.set()

    async def later(self) -> None:
        """Once it surely has looked again, from beginning to end; or is the host, and does not look."""
        before = self.looked
        with anyio.move_on_after(1):
            while self.looked < before + 2 and self.hosting is None:
                await anyio.sleep(0.002)
        await anyio.sleep(0.02)

    async def until_said(self, words: str) -> None:
        with anyio.fail_after(5):
            while not any(words in each for each in self.said):
                await anyio.sleep(0.002)

    def plays(self, act: Callable[[], Any], *, begin: bool = True) -> list[str]:
        async def main() -> None:
            if begin:
                await self.role.begin()
            await self.role.tell()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self.role.run)
                await act()
                tasks.cancel_scope.cancel()

        with looked_at(self):
            anyio.run(main)
        return self.said


@contextmanager
def looked_at(scene: Scene) -> Generator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(standing_by, "holder", scene.look)
        patch.setattr(standing_by, "on_beat", lambda _seconds: scene.pause)
        yield


# --- at the start


def test_who_may_be_the_host_is_it_at_once_where_nobody_is_and_says_nothing_about_it() -> None:
    scene = Scene()
    assert scene.plays(scene.later) == []
    assert (scene.tried, scene.looked) == (1, 0)
    assert scene.hosting is not None


def test_who_is_not_to_be_the_host_never_tries_and_says_that_nothing_is() -> None:
    scene = Scene(takes=False)
    said = scene.plays(scene.later)
    assert scene.tried == 0
    assert len(said) == 1
    assert "Nothing is the host" in said[0]
    assert "`metier host`" in said[0]


@pytest.mark.parametrize("takes", [True, False])
def test_who_starts_beside_a_host_says_which_process_that_is_and_what_comes_then(takes: bool) -> None:
    scene = Scene(OTHER, takes=takes)
    said = scene.plays(scene.later)
    assert len(said) == 1, "once, however often it is looked"
    assert "process 101 is the host" in said[0]
    assert ("and then here" in said[0]) == takes


def test_a_host_that_ended_between_two_looks_is_not_called_nothing_by_who_takes_its_place() -> None:
    scene = Scene()
    said = scene.plays(scene.later, begin=False)
    assert said == ["  Nothing was the host; this process is the host now."]


# --- while another is the host


def test_when_the_host_ends_who_stands_by_is_it_and_says_whom_it_follows() -> None:
    scene = Scene(OTHER)

    async def act() -> None:
        await scene.later()
        assert scene.tried == 1, "it does not try while another is the host"
        scene.other = None
        await scene.until_said("is the host now")
        await scene.later()

    said = scene.plays(act)
    assert said[1:] == ["  process 101, which was the host, has ended; this process is the host now."]
    assert scene.tried == 2


def test_who_becomes_the_host_once_more_does_not_name_the_one_of_before() -> None:
    scene = Scene(OTHER)

    async def act() -> None:
        scene.other = None
        await scene.until_said("process 101, which was the host")
        await scene.loses_it()
        await scene.until_said("Nothing was the host")

    said = scene.plays(act)
    assert sum("process 101, which was" in each for each in said) == 1


def test_where_somebody_else_was_faster_it_is_said_who() -> None:
    scene = Scene(OTHER)

    async def act() -> None:
        await scene.later()
        scene.other, scene.faster = None, THIRD
        await scene.until_said("process 202")
        await scene.later()

    said = scene.plays(act)
    assert said[1:] == ["  process 101 has ended; process 202 is the host now."]
    assert scene.hosting is None


def test_one_that_was_faster_and_has_ended_already_is_not_talked_about() -> None:
    scene = Scene(OTHER)
    tried = scene.tried

    async def act() -> None:
        await scene.later()
        scene.other, scene.refuses = None, 3
        await scene.until_said("this process is the host now")

    said = scene.plays(act)
    assert said[1:] == ["  process 101, which was the host, has ended; this process is the host now."]
    assert scene.tried == tried + 5, "at the start, three times in vain, and then"


def test_a_host_that_has_not_said_who_it_is_is_named_once_it_has() -> None:
    scene = Scene(NAMELESS)

    async def act() -> None:
        await scene.later()
        scene.other = OTHER
        await scene.until_said("process 101")
        await scene.later()
        scene.other = NAMELESS
        await scene.later()

    said = scene.plays(act)
    assert "another process is the host" in said[0]
    assert said[1:] == ["  process 101 is the host now."], "nobody is said to have ended who had no name"


def test_who_is_not_to_be_the_host_says_once_that_the_last_one_ended_and_who_comes_next() -> None:
    scene = Scene(OTHER, takes=False)

    async def act() -> None:
        await scene.later()
        scene.other = None
        await scene.until_said("has ended")
        await scene.later()
        scene.other = THIRD
        await scene.until_said("process 202")
        await scene.later()

    said = scene.plays(act)
    assert scene.tried == 0
    assert len(said) == 3
    assert "process 101, which was the host, has ended" in said[1]
    assert "`metier host`" in said[1]
    assert said[2] == "  process 202 is the host now."


# --- what goes wrong, and what is told


def test_what_keeps_it_from_being_the_host_is_said_once_and_again_when_it_is_another_or_came_back() -> None:
    scene = Scene(OTHER)

    async def act() -> None:
        await scene.later()
        for fault, words in (("no disk", "no disk"), ("no lock", "no lock")):
            scene.fault = fault
            await scene.until_said(words)
            await scene.later()
        scene.fault = ""
        await scene.later()
        scene.fault = "no lock"
        await scene.later()
        scene.fault = ""
        scene.other = None
        await scene.until_said("this process is the host now")

    said = scene.plays(act)
    faults = [each.rpartition(": ")[2] for each in said if "that is why" in each]
    assert [each.partition(".")[0].strip() for each in faults] == ["no disk", "no lock", "no lock"], said


def test_who_was_told_to_be_the_host_no_longer_does_not_begin_anew() -> None:
    scene = Scene()

    async def act() -> None:
        await scene.loses_it(told=True)
        await scene.until_said("as it was told")
        await scene.later()

    said = scene.plays(act)
    assert (scene.tried, scene.hosting) == (1, None)
    assert len(said) == 1
    assert "or this is started again" in said[0]


def test_who_lost_the_role_without_being_told_to_takes_it_again() -> None:
    scene = Scene()

    async def act() -> None:
        await scene.loses_it()
        await scene.until_said("takes the role again")
        await scene.until_said("this process is the host now")

    scene.plays(act)
    assert scene.tried == 2
    assert scene.hosting is not None


def test_it_costs_no_look_while_this_process_is_the_host() -> None:
    scene = Scene()

    async def act() -> None:
        await anyio.sleep(0.1)

    scene.plays(act)
    assert scene.looked == 0


def test_it_looks_once_a_beat_while_another_is_the_host() -> None:
    scene = Scene(OTHER)
    scene.pause = 0.1

    async def act() -> None:
        await anyio.sleep(0.35)

    scene.plays(act)
    assert 2 <= scene.looked <= 5
