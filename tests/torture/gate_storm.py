"""Processes that call, ask, decide and take up what was decided, two at a time, each killed at any moment and started again.

    gate_storm.py ROUNDS SEED FOLDER [careless]

Each tells what it was told, as soon as it was told it; after every round that is held against the record. `careless` is the same
without a recorded intent, which has to be found out.
"""

import ctypes
import json
import os
import random
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import anyio
from anyio import to_thread
from gate_judge import Judge, Told
from gate_place import Place

from metier.catalog.here import owner
from metier.errors import MetierError
from metier.model.approval import Approval
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.model.role import ROLES
from metier.record.approvals import approvals_in
from metier.record.audit import Intent
from metier.record.chain import Act
from metier.record.database import Database
from metier.record.deciding import Decider, decide
from metier.record.recorder import Recorder
from metier.runtime import Runtime

AT_ONCE = 2
ROUNDS_PER_STATE = 20
MOST_WORDS = 30
PATIENCE = 20.0
PR_SET_PDEATHSIG = 1
DECIDER = Decider(id=owner(), kind="human", rights=ROLES["owner"])


ELSEWHERE = ("it was taken up elsewhere, or is void",)


class Worker:
    """One process. Whatever it prints is true."""

    def __init__(self, place: Place, pipe: int, seed: int) -> None:
        self.place = place
        self.pipe = pipe
        self.dice = random.Random(seed)  # noqa: S311  the same storm again for the same seed

    def tell(self, *words: str) -> None:
        os.write(self.pipe, (" ".join(words) + "\n").encode())

    async def go(self) -> None:
        async with self.place.runtime() as runtime, anyio.create_task_group() as tasks:
            for _ in range(2):
                tasks.start_soon(self.call, runtime)
                tasks.start_soon(self.ask, runtime)
                tasks.start_soon(self.take_up, runtime)
            tasks.start_soon(to_thread.run_sync, self.decide)

    async def call(self, runtime: Runtime) -> None:
        while True:
            wrong = self.dice.random() < 0.1
            self.told(await runtime.call("pour", {"name": "tea", "note": 7 if wrong else "free"}))

    async def ask(self, runtime: Runtime) -> None:
        while True:
            self.told(await runtime.call("pour", {"name": "tea", "note": "asked"}))

    async def take_up(self, runtime: Runtime) -> None:
        while True:
            ready = await to_thread.run_sync(self.waiting, "approved")
            for each in self.dice.sample(ready, min(3, len(ready))):
                outcome = await runtime.resume(each.id)
                if isinstance(outcome, Refused) and outcome.reasons == ELSEWHERE:
                    continue  # that is told and not recorded: the call did not fail, somebody else was quicker
                self.told(outcome)
                if isinstance(outcome, Completed):
                    self.tell("taken", each.id)
            await anyio.sleep(0.002)

    def told(self, outcome: Outcome) -> None:
        match outcome:
            case Completed(call_id=call):
                self.tell("done", call)
            case Pending(call_id=call, approval_id=approval):
                self.tell("pending", approval, call)
            case Refused(call_id=call, code=code) if code != "record_unavailable" and call:
                self.tell("refused", call)
            case Refused():
                pass  # nothing could be written: then nothing was promised
            case Failed(code=code, message=message):
                self.tell("broke", code, *message.split())

    def decide(self) -> None:
        """The approver, with a database of his own, in a thread of its own."""
        with Database.open(self.place.state) as database:
            while True:
                with database.reading() as connection:
                    found = [each for each in approvals_in(connection) if each.state == "pending"]
                for each in found[:20]:
                    word: Any = "deny" if self.dice.random() < 0.2 else "approve"
                    try:
                        made = decide(database, each.id, by=DECIDER, decision=word)
                    except MetierError:
                        continue
                    if isinstance(made, Approval):
                        self.tell("denied" if word == "deny" else "approved", each.id)
                time.sleep(0.002)

    def waiting(self, state: str) -> list[Approval]:
        with Database.open(self.place.state) as database, database.reading() as connection:
            return [each for each in approvals_in(connection) if each.state == state]


def work(place: Place, pipe: int, seed: int, careless: bool) -> None:
    place.use()
    if careless:

        async def intent(self: Recorder, *_: Any) -> Intent:
            return Intent(seq=1, act=Act(principal="nobody"))

        Recorder.intent = intent  # type: ignore[assignment, method-assign]
    anyio.run(Worker(place, pipe, seed).go)


class Started:
    """A process, and what it told so far."""

    def __init__(self, place: Place, seed: int, careless: bool) -> None:
        self.pipe, writing = os.pipe()
        self._text = b""
        os.set_blocking(self.pipe, False)
        self.number = os.fork()
        if self.number:
            os.close(writing)
            return
        try:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            work(place, writing, seed, careless)
        except BaseException as error:  # noqa: BLE001  a worker that ends by itself is a finding
            os.write(writing, f"broke {error!r}\n".encode()[:4000])
        finally:
            os._exit(1)

    def hear(self) -> int:
        """Take in what it told; gives how many words that are by now."""
        with suppress(BlockingIOError):
            while data := os.read(self.pipe, 65_536):
                self._text += data
        return self._text.count(b"\n")

    def killed_after(self, words: int, seconds: float) -> bool:
        """Let it tell so many words, then kill it a moment later. Gives whether it was still at it."""
        give_up = time.monotonic() + PATIENCE
        while self.hear() < words and time.monotonic() < give_up:
            select.select([self.pipe], [], [], 0.05)
        time.sleep(seconds)
        os.kill(self.number, signal.SIGKILL)
        _, status = os.waitpid(self.number, 0)
        self.hear()
        os.close(self.pipe)
        return os.WIFSIGNALED(status)

    @property
    def told(self) -> list[Told]:
        # A line that was cut off was told to nobody.
        lines = self._text[: self._text.rfind(b"\n") + 1].decode("utf-8", "replace").splitlines()
        return [tuple(line.split(" ")) for line in lines]


def one_round(place: Place, dice: random.Random, careless: bool) -> tuple[list[Told], int]:
    """What was told until everybody was killed, and how many were in the middle of it then."""
    started = [Started(place, dice.randrange(1 << 30), careless) for _ in range(AT_ONCE)]
    killed = 0
    for each in started:
        # Now and then before it is open at all, else after any number of words and at any point of what it does next.
        early = dice.random() < 0.1
        words = 0 if early else dice.randrange(1, MOST_WORDS)
        killed += each.killed_after(words, dice.uniform(0, 0.1 if early else 0.01))
    return [told for each in started for told in each.told], killed


def main() -> None:
    rounds, seed, folder = int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3])
    careless = sys.argv[4:] == ["careless"]
    dice = random.Random(seed)  # noqa: S311
    found: dict[str, Any] = {"rounds": 0, "killed": 0, "interrupted": 0, "later": 0, "problems": []}
    counts = dict.fromkeys(("done", "refused", "pending", "approved", "denied", "taken"), 0)
    place, judge, before = Place(folder), Judge(""), set[str]()
    for number in range(rounds):
        if number % ROUNDS_PER_STATE == 0:
            place = Place(folder / str(number))
            place.make()
            judge, before = Judge(place.state), set()
        told, killed = one_round(place, dice, careless)
        found["rounds"] += 1
        found["killed"] += killed
        problems = [" ".join(each) for each in told if each[0] == "broke"]
        told = [each for each in told if each[0] != "broke"]
        for each in told:
            counts[each[0]] += 1
        found["later"] += sum(each[0] == "taken" and each[1] in before for each in told)
        before |= {each[1] for each in told if each[0] == "approved"}
        earlier = len(judge.interrupted)
        if os.path.exists(place.state):
            problems += judge.problems([each for each in told if each[0] != "taken"], place.ran())
        found["interrupted"] += len(judge.interrupted) - earlier
        found["problems"] += [f"round {number}: {each}" for each in problems]
        if len(found["problems"]) > 20:
            break
    print(json.dumps({**found, **counts}))


if __name__ == "__main__":
    main()
