"""Who listens to what happens: each thing is told once, in its order, from where he was, and nobody is looked for who does not listen."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, get_args

import anyio
import pytest

from metier.doors.http import live as module
from metier.doors.http.live import KINDS, MOST_MISSED, Change, Kind, Live, change_of, frames, written
from metier.doors.http.problem import Refusal
from metier.errors import StateError
from metier.kernel.events import Happened
from metier.model.call import Principal
from metier.record.events import EVENTS

ANN = Principal(id="human:ann", kind="human")
BOT = Principal(id="agent:bot", kind="agent")


def everything(_: Change) -> bool:
    return True


class Record:
    """What happened, as a test says, and who listens to it."""

    def __init__(self, upto: int = 0) -> None:
        self.upto = upto
        self.looked = 0
        self.engine: Any = SimpleNamespace(seen=SimpleNamespace(catalog=object()))
        self.live = Live(self.engine)
        self.since: Callable[[int], list[tuple[int, Change | None]]] = self._since
        private: Any = self.live
        private._newest = lambda: self.upto
        self.files: tuple[Any, ...] = ("rules",)
        private._written_down = lambda: self.files
        private._since = self._look

    def _look(self, seq: int) -> list[tuple[int, Change | None]]:
        self.looked += 1
        return self.since(seq)

    def _since(self, seq: int) -> list[tuple[int, Change | None]]:
        return [(each, change(each)) for each in range(seq + 1, self.upto + 1)][:200]

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Live]:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.live.run)
            with anyio.fail_after(10):
                yield self.live
            tasks.cancel_scope.cancel()


def change(seq: int) -> Change:
    return Change(kind="call.began", seq=seq)


async def told(stream: Any, many: int) -> list[int]:
    with anyio.fail_after(5):
        return [(await stream.receive()).seq for _ in range(many)]


def nothing_more(stream: Any) -> bool:
    with pytest.raises(anyio.WouldBlock):
        stream.receive_nowait()
    return True


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOOK_SECONDS", 0.01)


def test_who_begins_to_listen_is_told_what_happens_from_then_on() -> None:
    record = Record(upto=7)

    async def main() -> None:
        async with record.running() as live:
            missed, stream, stop = await live.listen(ANN, None, everything)
            assert missed == []
            record.upto = 9
            assert await told(stream, 2) == [8, 9]
            stop()
            record.upto = 12
            _, stream, stop = await live.listen(ANN, None, everything)
            record.upto = 13
            assert await told(stream, 1) == [13], "what happened while nobody listened is no news"
            stop()

    anyio.run(main)


def test_while_nobody_listens_nothing_is_looked_for() -> None:
    record = Record()

    async def main() -> None:
        async with record.running() as live:
            await anyio.sleep(0.1)
            assert record.looked == 0
            _, _, stop = await live.listen(ANN, None, everything)
            with anyio.fail_after(5):
                while not record.looked:
                    await anyio.sleep(0.01)
            stop()
            await anyio.sleep(0.1)
            looked = record.looked
            await anyio.sleep(0.1)
            assert record.looked == looked

    anyio.run(main)


def test_who_comes_back_is_told_what_he_missed_and_nothing_of_it_twice() -> None:
    record = Record(upto=5)

    async def main() -> None:
        live: Any = record.live
        _, first, stop_first = await live.listen(BOT, None, everything)
        record.upto = 8
        await live._look()
        assert await told(first, 3) == [6, 7, 8]
        record.upto = 10  # which he is told like everybody, a moment later
        live._newest = lambda: 8
        missed, stream, stop = await live.listen(ANN, 6, everything)
        assert [each.seq for each in missed] == [7, 8]
        await live._look()
        assert await told(stream, 2) == [9, 10]
        assert nothing_more(stream)
        stop()
        stop_first()

    anyio.run(main)


def test_who_knows_more_than_was_told_yet_missed_nothing_and_is_not_sent_to_look_anew() -> None:
    """A page is made of the record as it is, and what looks for others comes a moment later."""
    record = Record(upto=5)

    async def main() -> None:
        live: Any = record.live
        _, first, stop_first = await live.listen(BOT, None, everything)
        record.upto = 8  # not looked for yet
        missed, stream, stop = await live.listen(ANN, 8, everything)
        assert missed == []
        await live._look()
        assert await told(stream, 3) == [6, 7, 8] and await told(first, 3) == [6, 7, 8]
        missed, _, stop_again = await live.listen(ANN, 9, everything)  # the control: of another record
        assert [each.kind for each in missed] == ["reset"]
        for each in (stop, stop_first, stop_again):
            each()

    anyio.run(main)


def test_what_was_read_before_is_not_told_again() -> None:
    record = Record(upto=3)

    async def main() -> None:
        async with record.running() as live:
            _, stream, stop = await live.listen(ANN, None, everything)
            record.since = lambda seq: [(each, change(each)) for each in range(2, 6)] if seq < 5 else []
            assert await told(stream, 2) == [4, 5]
            assert nothing_more(stream)
            stop()

    anyio.run(main)


@pytest.mark.parametrize("known", [11, -MOST_MISSED])
def test_who_knows_what_there_is_not_or_missed_too_much_is_told_to_look_anew(known: int) -> None:
    record = Record(upto=10)

    async def main() -> None:
        missed, _, stop = await record.live.listen(ANN, known, everything)
        assert [(each.kind, each.seq) for each in missed] == [("reset", 10)]
        stop()

    anyio.run(main)


def test_what_he_missed_ends_where_the_record_does() -> None:
    record = Record(upto=10)
    record.since = lambda _seq: []

    async def main() -> None:
        with anyio.fail_after(5):
            missed, _, stop = await record.live.listen(ANN, 4, everything)
        assert missed == []
        stop()

    anyio.run(main)


def test_cap_13_what_he_may_not_see_he_is_not_told_missed_or_not() -> None:
    record = Record(upto=4)

    async def main() -> None:
        async with record.running() as live:
            missed, stream, stop = await live.listen(ANN, 0, lambda each: each.seq % 2 == 0)
            assert [each.seq for each in missed] == [2, 4]
            record.upto = 8
            assert await told(stream, 2) == [6, 8]
            stop()

    anyio.run(main)


def test_that_skills_changed_is_told_once() -> None:
    record = Record()

    async def main() -> None:
        async with record.running() as live:
            _, stream, stop = await live.listen(ANN, None, everything)
            await anyio.sleep(0.05)
            record.engine.seen.catalog = object()
            with anyio.fail_after(5):
                assert (await stream.receive()).kind == "skills.changed"
            await anyio.sleep(0.1)
            assert nothing_more(stream)
            stop()

    anyio.run(main)


def test_an_event_is_told_by_its_name_and_the_skill_that_it_is_of() -> None:
    record = Record()

    async def main() -> None:
        _, stream, stop = await record.live.listen(ANN, None, everything)
        for source in ("metier", "tea"):
            record.live.happened(Happened(name="tea.ready", payload={"secret": 1}, source=source))
        ours, of_a_skill = stream.receive_nowait(), stream.receive_nowait()
        assert (ours.state, ours.skill) == ("tea.ready", "")
        assert (of_a_skill.state, of_a_skill.skill) == ("tea.ready", "tea")
        assert b"secret" not in written(of_a_skill)
        stop()

    anyio.run(main)


@pytest.mark.parametrize("many", [0, module.MOST_OF_ONE])
def test_a_server_that_ends_takes_in_nobody_however_many_he_has(many: int) -> None:
    record = Record()

    async def main() -> None:
        streams = [(await record.live.listen(ANN, None, everything))[1] for _ in range(many)]
        record.live.close()
        for stream in streams:
            with pytest.raises(anyio.EndOfStream):
                await stream.receive()
        with pytest.raises(Refusal) as refused:
            await record.live.listen(ANN, None, everything)
        assert refused.value.problem.status == 503
        for stream in streams:
            stream.close()

    anyio.run(main)


def test_agents_together_leave_places_for_people() -> None:
    record = Record()

    async def main() -> None:
        stops = []
        for number in range(module.MOST_OF_AGENTS):
            bot = Principal(id=f"agent:{number}", kind="agent")
            stops.append((await record.live.listen(bot, None, everything))[2])
        with pytest.raises(Refusal):
            await record.live.listen(BOT, None, everything)
        stops.append((await record.live.listen(ANN, None, everything))[2])
        for stop in stops:
            stop()

    anyio.run(main)


def test_while_the_record_cannot_be_read_who_listens_stays_and_is_told_afterwards() -> None:
    record = Record(upto=1)

    def broken(_seq: int) -> list[tuple[int, Change | None]]:
        raise StateError("no disk", remedy="")

    async def main() -> None:
        async with record.running() as live:
            _, stream, stop = await live.listen(ANN, None, everything)
            record.since = broken
            before = record.looked
            while record.looked < before + 3:
                await anyio.sleep(0.01)
            record.since = record._since
            record.upto = 2
            assert await told(stream, 1) == [2]
            stop()

    anyio.run(main)


# --- what is sent


def written_down(event: str, **more: str) -> Any:
    fields = ("at", "call_id", "tool", "skill", "principal", "on_behalf_of", "approval", "code", "effect")
    return SimpleNamespace(event=event, seq=3, **{**dict.fromkeys(fields, ""), **more})


def test_everything_that_is_written_down_is_told_and_what_nobody_knows_is_not() -> None:
    assert set(KINDS) == set(EVENTS)
    assert set(KINDS.values()) <= set(get_args(Kind))
    assert change_of(written_down("of a later version"), {}) is None
    told = change_of(written_down("skill_executed"), {})
    assert told == Change(kind="call.ended", seq=3, state="skill_executed"), "control"


def test_a_request_that_who_asked_took_back_is_decided_and_a_call_that_is_being_ended_has_not_ended() -> None:
    back = change_of(written_down("call_cancelled", approval="apr_1"), {"apr_1": ("agent:bot", "")})
    assert back is not None and (back.kind, back.asked_by) == ("approval.decided", "agent:bot")
    ended = change_of(written_down("call_cancelled"), {})
    assert ended is not None and ended.kind == "call.cancelled"


def test_what_a_person_only_looked_at_is_marked_so_that_no_page_looks_again_for_it() -> None:
    look = change_of(written_down("skill_executed", effect="read", principal="human:ann"), {})
    act = change_of(written_down("skill_executed", effect="act", principal="human:ann"), {})
    assert look is not None and look.look and act is not None and not act.look
    for event in ("skill_execution_error", "skill_execution_blocked"):  # looked at in vain
        vain = change_of(written_down(event, effect="read", principal="human:ann"), {})
        agents = change_of(written_down(event, effect="read", principal="agent:bot"), {})
        assert vain is not None and vain.look and agents is not None and not agents.look


def test_a_file_of_rules_that_was_changed_by_hand_is_told_once() -> None:
    record = Record()

    async def main() -> None:
        async with record.running() as live:
            _, stream, stop = await live.listen(ANN, None, everything)
            private: Any = live
            with anyio.fail_after(5):
                while private._files is None:
                    await anyio.sleep(0.01)
            assert nothing_more(stream)
            record.files = ("other rules",)
            with anyio.fail_after(5):
                assert (await stream.receive()).kind == "policy.changed"
            await anyio.sleep(0.05)
            assert nothing_more(stream)
            stop()

    anyio.run(main)


def test_a_stream_beats_while_nothing_happens_and_ends_once_he_may_not_listen() -> None:
    asked = 0

    async def still() -> bool:
        nonlocal asked
        asked += 1
        return asked < 4

    async def main() -> list[bytes]:
        _, stream, stop = await Record().live.listen(ANN, None, everything)
        try:
            with anyio.fail_after(5):
                return [each async for each in frames([], stream, still, beat=0.0, look=0.02)]
        finally:
            stop()

    assert anyio.run(main) == [b"retry: 2000\n\n", b": \n\n", b": \n\n", b": \n\n"]


def test_web_10_who_is_told_much_is_asked_all_the_same_whether_he_may_still_listen() -> None:
    """Else somebody who was revoked would go on hearing for as long as enough happens."""

    async def main() -> int:
        record = Record()
        _, stream, stop = await record.live.listen(ANN, None, everything)
        record.live._tell(change(1))

        async def still() -> bool:
            return False

        heard = 0
        with anyio.fail_after(5):
            async for _ in frames([], stream, still, beat=9.0, look=0.05):
                heard += 1
                record.live._tell(change(heard + 1))
                await anyio.sleep(0.01)
        stop()
        return heard

    assert 1 < anyio.run(main) < 40


def test_only_what_has_a_record_has_a_number_to_come_back_with() -> None:
    assert written(change(7)).startswith(b"id: 7\nevent: call.began\ndata: ")
    assert written(Change(kind="skills.changed")).startswith(b"event: skills.changed\n")
