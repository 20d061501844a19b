"""The host's side of a life, against a guest that is a thread at the other end of a socket; and what a real one can forge."""

import json
import socket
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from lives import PYTHON, Asked, Life, job, living, python
from metier.model.digest import Json
from metier.model.entry import PythonHandler
from metier.model.job import Report
from metier.model.ports import Answered, NotAnswered
from metier.sandbox import wire
from metier.sandbox.admission import MOST_LIVES, Admission
from metier.sandbox.wire import Broken, End, Wire
from metier.sandbox.wire_life import BURST, HUNG, MOST_OPEN, PER_SECOND, Pace
from metier.sandbox.wire_message import MOST_BYTES

KEY = "0123456789abcdef0123456789abcdef"
Say = Callable[..., None]
Hear = Callable[[], dict[str, Any]]
ASKED: dict[str, Json] = {"module": "m", "op": "o", "params": {}}


def lived(
    guest: Callable[[Say, Hear], None],
    meanwhile: Callable[[Life], Awaitable[None]],
    *,
    host: Asked | None = None,
    seconds: float = 30.0,
) -> tuple[End, Life]:
    """How a life ended that `guest` led, while the host did something `meanwhile`, once it was ready."""
    ours, theirs = socket.socketpair()
    file = theirs.makefile("rb")

    def hear() -> dict[str, Any]:
        return json.loads(file.readline())

    def say(**message: Any) -> None:
        theirs.sendall(f"{KEY} ".encode() + json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    def act() -> None:
        try:
            hear()
            guest(say, hear)
        except (OSError, ValueError):
            pass  # the host hung up
        finally:
            file.close()
            theirs.close()

    ends: list[End] = []
    lives: list[Life] = []

    async def body() -> None:
        life = Life()
        lives.append(life)
        made = Wire(
            ours.fileno(), ours.fileno(), key=KEY, host=host or Asked(), output_bytes=1_000, alarm=life.alarms.append,
            lives=life, enable_seconds=seconds,
        )  # fmt: skip

        async def run() -> None:
            ends.append(await made.run({}))
            life.ended.set()
            life.begun.set()

        with anyio.fail_after(20):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(run)
                await life.begun.wait()
                await meanwhile(life)

    thread = threading.Thread(target=act, daemon=True)
    thread.start()
    try:
        anyio.run(body)
    finally:
        ours.close()
        thread.join(10)
    assert not thread.is_alive()
    return ends[0], lives[0]


def answering(forge: Callable[[Say, int], None]) -> Callable[[Say, Hear], None]:
    """A guest that answers one operation as it should, and does the next with `forge`."""

    def guest(say: Say, hear: Hear) -> None:
        say(method="ready")
        say(id=hear()["id"], result=1)
        forge(say, hear()["id"])
        hear()

    return guest


async def twice(life: Life) -> None:
    assert await life.operate(ASKED) == Answered(value=1)  # the genuine one passes
    await life.operate(ASKED)


def _several(say: Say, number: int) -> None:
    say(id=number, result=1)
    say(id=number, result=2)


FORGED: dict[str, Callable[[Say, int], None]] = {
    "to an id that was never open": lambda say, number: say(id=number + 1, result=1),
    "to one that was answered before": lambda say, number: say(id=number - 1, result=1),
    "a second time": _several,
    "an error to an id that is not open": lambda say, _n: say(id=99, error={"code": -32000, "message": "x"}),
    "what is no answer": lambda say, number: say(id=number, outcome=1),
    "with a result and an error": lambda say, number: say(
        id=number, result=1, error={"code": 1, "message": "x"}
    ),
    "with an id that is none": lambda say, number: say(id=f"{number}", result=1),
    "with a value that is no JSON, to an id that is not open": lambda say, _n: say(
        id=99, result=float("nan")
    ),
    "a second word that it is ready": lambda say, _n: say(method="ready"),
}


@pytest.mark.parametrize("forge", FORGED.values(), ids=FORGED.keys())
def test_a_forged_answer_ends_the_life_as_a_violation(forge: Callable[[Say, int], None]) -> None:
    end, life = lived(answering(forge), twice)
    assert isinstance(end, Broken)
    assert end.problem == "forged_message"
    assert [each.kind for each in life.alarms] == ["forged_message"]


def test_a_value_that_is_no_json_is_the_fault_of_the_operation_alone() -> None:
    def guest(say: Say, hear: Hear) -> None:
        say(method="ready")
        say(id=hear()["id"], result=float("nan"))
        say(id=hear()["id"], result="x" * MOST_BYTES)
        say(id=hear()["id"], result=1)
        say(id=0, result=None)

    async def thrice(life: Life) -> None:
        for _ in range(2):
            answer = await life.operate(ASKED)
            assert isinstance(answer, NotAnswered)
            assert answer.name == "BadResult"
        assert await life.operate(ASKED) == Answered(value=1)

    end, life = lived(guest, thrice)
    assert not isinstance(end, Broken)
    assert life.alarms == []


def test_a_guest_that_ends_leaves_nobody_waiting() -> None:
    def guest(say: Say, hear: Hear) -> None:
        say(method="ready")
        hear()

    async def wait(life: Life) -> None:
        answer = await life.operate(ASKED, 600)
        assert isinstance(answer, NotAnswered)
        assert answer.name == "Gone"

    end, _ = lived(guest, wait)
    assert end == Broken(problem="closed", detail="It ended without an answer")


def test_one_that_is_never_ready_is_late() -> None:
    async def nothing(life: Life) -> None:
        assert life.times == 0

    end, _ = lived(lambda _say, hear: (hear(), None)[1], nothing, seconds=0.05)
    assert isinstance(end, Broken)
    assert end.problem == "late"


def test_parameters_that_are_no_message_are_refused_and_nothing_is_sent() -> None:
    def guest(say: Say, hear: Hear) -> None:
        say(method="ready")
        assert hear()["params"] == ASKED
        say(id=0, result=None)

    async def odd(life: Life) -> None:
        large = await life.operate({"params": "x" * MOST_BYTES})
        unfit = await life.operate({"params": "\ud800"})
        assert [each.name for each in (large, unfit) if isinstance(each, NotAnswered)] == [
            "TooLarge",
            "InvalidRequest",
        ]
        await life.operate(ASKED)

    end, _ = lived(guest, odd)
    assert not isinstance(end, Broken)


def test_operations_given_up_count_until_they_are_answered() -> None:
    def guest(say: Say, hear: Hear) -> None:
        say(method="ready")
        given_up = [hear()["id"] for _ in range(MOST_OPEN)]
        for number in given_up:
            say(id=number, result=None)
        say(id=hear()["id"], result="again")
        say(id=0, result=None)

    async def many(life: Life) -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(MOST_OPEN):
                tasks.start_soon(life.operate, ASKED, 0.0001)
        answer = NotAnswered(name="Busy", message="")
        while isinstance(answer, NotAnswered):
            assert answer.name == "Busy"
            await anyio.sleep(0.001)
            answer = await life.operate(ASKED)
        assert answer == Answered(value="again")

    end, _ = lived(guest, many)
    assert not isinstance(end, Broken)


@pytest.mark.parametrize("answers", [True, False])
def test_operations_whose_asker_went_away_have_their_time_and_then_the_life_hangs(*, answers: bool) -> None:
    over = threading.Event()

    def guest(say: Say, hear: Hear) -> None:
        say(method="ready")
        given_up = [hear()["id"] for _ in range(MOST_OPEN)]
        if answers:
            for number in given_up:
                say(id=number, result=None)
            say(id=hear()["id"], result="again")
        over.wait(20)
        say(id=0, result=None)

    async def many(life: Life) -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(MOST_OPEN):
                tasks.start_soon(life.operate, ASKED, 0.3)
            await anyio.wait_all_tasks_blocked()
            tasks.cancel_scope.cancel()
        answer: Answered | NotAnswered = NotAnswered(name="Busy", message="")
        while isinstance(answer, NotAnswered) and answer.name == "Busy":
            await anyio.sleep(0.001)
            answer = await life.operate(ASKED)
        over.set()
        if answers:
            assert answer == Answered(value="again")
        else:
            assert isinstance(answer, NotAnswered)
            assert answer.name == HUNG

    end, _ = lived(guest, many)
    assert not isinstance(end, Broken)


def test_a_life_is_answered_however_much_it_has_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run is not, which is what its own test shows."""
    monkeypatch.setattr(wire, "MOST_REQUESTS", 50)
    host = Asked()

    def guest(say: Say, hear: Hear) -> None:
        say(method="ready")
        for number in range(1, 101):
            say(id=number, method="echo", params={})
            assert "result" in hear()
        say(id=0, result=None)

    async def nothing(life: Life) -> None:
        await life.ended.wait()

    end, _ = lived(guest, nothing, host=host)
    assert not isinstance(end, Broken)
    assert len(host.calls) == 100


def test_who_sends_faster_than_the_pace_waits_and_who_keeps_to_it_does_not() -> None:
    pace = Pace()
    assert pace.rest(1, 100) == 0.0
    assert pace.rest(int(BURST), 0) >= 0.0
    assert pace.rest(int(PER_SECOND), 0) == pytest.approx(1.0, abs=0.2)
    assert Pace().rest(0, 4_096 * int(BURST + PER_SECOND)) == pytest.approx(1.0, abs=0.2)


def test_an_answer_that_a_skill_forges_with_the_key_of_its_own_runner_ends_it(tmp_path: Path) -> None:
    """In Python nothing is hidden from the code, so it can write whatever our runner could; not what nobody asked."""
    forging = PYTHON.replace(
        "return {1, 2}",
        "import gc\n        bridge = next(x for x in gc.get_objects() if type(x).__name__ == 'Bridge')\n"
        "        bridge.send({'id': 4711, 'result': None})\n        time.sleep(60)",
    )

    async def body() -> None:
        async with living(tmp_path, python(forging)) as life:
            assert await life.do("plain", a=1) == {"a": 1}
            answer = await life.do("odd")
            assert isinstance(answer, NotAnswered)
            assert answer.name == "Gone"
            report = await life.over()
            assert report.ending == "stopped"
            assert [each.kind for each in report.violations] == ["forged_message"]

    anyio.run(body)


def test_lives_take_no_turn_from_runs_and_have_a_bound_of_their_own(tmp_path: Path) -> None:
    async def body() -> None:
        door = Admission(at_once=1)
        held = anyio.Event()

        async def hold(_job: Any) -> Report:
            await held.wait()
            return Report(ending="returned")

        async def at_once(_job: Any) -> Report:
            return Report(ending="returned")

        made = job(tmp_path, python(), Life(), Asked())
        async with anyio.create_task_group() as tasks:
            for _ in range(MOST_LIVES):
                tasks.start_soon(door.run, made, hold)
            await anyio.wait_all_tasks_blocked()
            assert (await door.run(made, hold)).ending == "busy"
            ordinary = replace(made, life=None, entry=PythonHandler(path="skill.py"))
            assert (await door.run(ordinary, at_once)).ending == "returned"
            held.set()
        assert (await door.run(made, at_once)).ending == "returned"

    anyio.run(body)


def test_a_life_of_which_nobody_is_told_does_not_begin(tmp_path: Path) -> None:
    async def body() -> None:
        async def never(_job: Any) -> Report:
            raise AssertionError

        made = job(tmp_path, python(), Life(), Asked())
        for odd in (replace(made, life=None), replace(made, entry=PythonHandler(path="skill.py"))):
            assert (await Admission().run(odd, never)).ending == "not_started"

    anyio.run(body)
