"""Schedules: done at their time, once, on behalf of who set them up; what was not done is said."""

import sqlite3
import time
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

from firing_kit import OWNER, Made
from loopback import PUBLIC, Listener, World, make_authority, reply
from metier.kernel import schedules as operations
from metier.kernel.firing_store import KEPT
from metier.kernel.operation import OperationError
from metier.kernel.schedule_account import take
from metier.kernel.schedule_notice import NOTIFY, PostedWebhooks
from metier.kernel.schedule_store import KeptSchedule, one_schedule
from metier.kernel.store import _TABLES, FILE, Store  # pyright: ignore[reportPrivateUsage]
from metier.model.digest import Json
from metier.model.outcome import Failed, Refused
from metier.record.backup_beside import begin_again, copy_kernel
from schedule_kit import Office, Wall, minutes, seconds_until, set_wall

CANARY = "c4n4ry-0f-a-t0ken-1234567890"


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    return set_wall(monkeypatch)


def taken(store: Store, kept: KeptSchedule) -> bool:
    """What it is due at next is claimed, at its time."""
    assert kept.schedule is not None
    assert kept.next_due is not None
    return take(store, kept, kept.schedule, kept.next_due) is not None


@pytest.mark.anyio
async def test_a_moment_that_comes_is_done_and_then_over(tmp_path: Path) -> None:
    office = Office(tmp_path)
    async with office.running():
        at = datetime.fromtimestamp(time.time() + 1, UTC).isoformat()
        id = await office.create(
            by="human:anna", type="once", timestamp=at, arguments={"when": "{{schedule.due}}"}
        )
        await office.until(1)
    (made,) = office.book.made
    assert (made.principal.id, made.principal.on_behalf_of) == (f"agent:schedule/{id}", "human:anna")
    assert made.principal.kind == "agent"
    assert made.unattended
    assert made.arguments == {"when": at}
    row = await office.get(id)
    assert (row["status"], row["last_outcome"], row["next_due"]) == ("over", "completed", None)


@pytest.mark.anyio
async def test_two_hosts_that_look_at_once_do_it_once(tmp_path: Path) -> None:
    """There is one host by its lock; this is what holds should there be two for a moment."""
    first, second = Office(tmp_path), Office(tmp_path)
    at = datetime.fromtimestamp(time.time() + 1, UTC).isoformat()
    await first.create(type="once", timestamp=at)
    async with first.running(), second.running():
        await first.until(1)
        await anyio.sleep(0.2)
    assert len(first.book.made) + len(second.book.made) == 1


@pytest.mark.anyio
async def test_what_was_due_while_no_host_ran_is_missed_and_said(tmp_path: Path, wall: Wall) -> None:
    office = Office(tmp_path)
    id = await office.create(name="every ten", **minutes(10))
    at = datetime.fromtimestamp(time.time() + 100, UTC).isoformat()
    once = await office.create(name="once", type="once", timestamp=at)
    wall.ahead = 7 * 600 - 120
    async with office.running():
        with anyio.fail_after(20):
            while not (await office.get(once))["missed"]:
                await anyio.sleep(0.02)
            while not (await office.get(id))["missed"]:
                await anyio.sleep(0.02)
    assert office.book.made == [], "nobody wants a moment's work an hour late"
    row = await office.get(once)
    assert (row["status"], row["missed"]) == ("over", 1)
    assert "missed" in row["last_outcome"]
    missed = {row["name"]: row for row in (await office.do("missed"))["missed"]}
    assert missed["every ten"]["missed"] == 6
    assert len(missed["every ten"]["latest"]) == 6
    assert (await office.get(id))["next_due"] is not None


@pytest.mark.anyio
async def test_rel_15_what_may_have_been_done_before_a_restore_is_missed_and_not_done_again(
    tmp_path: Path,
) -> None:
    office = Office(tmp_path)
    at = datetime.fromtimestamp(time.time() + 1, UTC).isoformat()
    id = await office.create(name="once", type="once", timestamp=at)
    homes = {name: tmp_path / name / "home" for name in ("mere copy", "restored")}
    for home in homes.values():
        home.mkdir(mode=0o700, parents=True)
        copy_kernel(str(tmp_path / "home"), str(home / "kernel.db"))
        (home / "kernel.db").chmod(0o600)
    async with office.running():
        await office.until(1)
    begin_again(str(homes["restored"] / "kernel.db"), "the backup")
    mere, restored = Office(homes["mere copy"].parent), Office(homes["restored"].parent)
    async with mere.running(), restored.running():
        await mere.until(1)  # as it would be
        with anyio.fail_after(20):
            while not (await restored.get(id))["missed"]:
                await anyio.sleep(0.02)
    assert restored.book.made == []
    row = await restored.get(id)
    assert row["status"] == "over"
    assert "restored from a backup" in row["last_outcome"]


@pytest.mark.anyio
async def test_what_is_due_after_a_restore_is_done(tmp_path: Path) -> None:
    office = Office(tmp_path)
    begin_again(str(tmp_path / "home" / "kernel.db"), "the backup")
    at = datetime.fromtimestamp(time.time() + 1, UTC).isoformat()
    await office.create(name="once", type="once", timestamp=at)
    async with office.running():
        await office.until(1)


@pytest.mark.anyio
async def test_a_clock_that_is_set_back_repeats_nothing(tmp_path: Path, wall: Wall) -> None:
    office = Office(tmp_path)
    id = await office.create(**minutes(10))
    async with office.running():
        wall.ahead = 601
        office.schedules._watch.poke()  # pyright: ignore[reportPrivateUsage]
        await office.until(1)
        wall.ahead = 0
        office.schedules._watch.poke()  # pyright: ignore[reportPrivateUsage]
        await office.looked()
        assert seconds_until(await office.get(id)) > 1_000, "what was done is not what is due next"
        wall.ahead = 601
        await office.looked()
    assert len(office.book.made) == 1


@pytest.mark.anyio
async def test_a_clock_that_was_ahead_and_set_right_while_no_host_ran_keeps_nothing_silent(
    tmp_path: Path, wall: Wall
) -> None:
    office = Office(tmp_path)
    id = await office.create(**minutes(10))
    cron = await office.create(type="cron", expression="*/7 * * * *")
    wall.ahead = 365 * 86_400
    async with office.running():
        with anyio.fail_after(20):
            while (
                seconds_until(await office.get(id)) < 86_400 or seconds_until(await office.get(cron)) < 86_400
            ):
                await anyio.sleep(0.02)
    wall.ahead = 0
    again = Office(tmp_path)
    async with again.running():
        with anyio.fail_after(20):
            while seconds_until(await again.get(id)) > 600 or seconds_until(await again.get(cron)) > 420:
                await anyio.sleep(0.02)
        wall.ahead = 601
        again.schedules._watch.poke()  # pyright: ignore[reportPrivateUsage]
        with anyio.fail_after(20):
            while not again.book.made:
                await anyio.sleep(0.02)


@pytest.mark.anyio
async def test_a_schedule_that_was_set_up_while_the_clock_was_ahead_is_done_when_it_is_right(
    tmp_path: Path, wall: Wall
) -> None:
    office = Office(tmp_path)
    wall.ahead = 365 * 86_400
    id = await office.create(**minutes(10))
    wall.ahead = 0
    async with office.running():
        with anyio.fail_after(20):
            while seconds_until(await office.get(id)) > 600:
                await anyio.sleep(0.02)
        wall.ahead = 601
        office.schedules._watch.poke()  # pyright: ignore[reportPrivateUsage]
        await office.until(1)


@pytest.mark.anyio
async def test_a_machine_that_begins_in_1970_and_learns_the_time_later_has_missed_nothing_for_it(
    tmp_path: Path, wall: Wall
) -> None:
    office = Office(tmp_path)
    id = await office.create(**minutes(10))
    async with office.running():
        wall.ahead = 601
        office.schedules._watch.poke()  # pyright: ignore[reportPrivateUsage]
        await office.until(1)
    wall.ahead = -time.time() + 1_000
    again = Office(tmp_path)
    async with again.running():
        with anyio.fail_after(20):
            while seconds_until(await again.get(id)) > 0:
                await anyio.sleep(0.02)
        wall.ahead = 601
        again.schedules._watch.poke()  # pyright: ignore[reportPrivateUsage]
        with anyio.fail_after(20):
            while seconds_until(await again.get(id)) < 600:
                await anyio.sleep(0.02)
    row = await again.get(id)
    assert (row["missed"], len(row["firings"])) == (0, 1)
    assert again.book.made == []


@pytest.mark.anyio
async def test_what_other_schedules_and_triggers_did_does_not_push_out_what_one_did(tmp_path: Path) -> None:
    office = Office(tmp_path)
    id = await office.create(**minutes(10))
    with office.store.writing() as connection:
        connection.execute(
            "INSERT INTO firing (kind, what, due, attempt, call_id, began_at, ended_at, outcome) "
            "VALUES ('schedule', ?, 1.0, 1, '', 1.0, 1.0, 'completed')",
            (id,),
        )
        others = [("trigger" if n % 2 else "schedule", "other", float(n)) for n in range(1, 2_001)]
        connection.executemany(
            "INSERT INTO firing (kind, what, due, attempt, call_id, began_at, ended_at, outcome) "
            "VALUES (?, ?, ?, 1, '', 1.0, 1.0, 'completed')",
            others,
        )
    assert taken(office.store, one_schedule(office.store, id))
    assert len((await office.get(id))["firings"]) == 2
    with office.store.writing() as connection:  # control: its own are counted
        connection.executemany(
            "INSERT INTO firing (kind, what, due, attempt, call_id, began_at, ended_at, outcome) "
            "VALUES ('schedule', ?, ?, 1, '', 1.0, 1.0, 'completed')",
            [(id, float(n)) for n in range(2, KEPT + 2)],
        )
    assert taken(office.store, one_schedule(office.store, id))
    with office.store.reading() as connection:
        (number,) = connection.execute("SELECT count(*) FROM firing WHERE what = ?", (id,)).fetchone()
    assert number in (KEPT, KEPT + 1), "one of them is still under way"


@pytest.mark.anyio
async def test_what_was_cut_off_is_not_done_again_and_said(tmp_path: Path) -> None:
    office = Office(tmp_path)
    reached = anyio.Event()

    async def hangs(made: Made) -> Json:
        reached.set()
        await anyio.sleep_forever()

    office.book.answer = hangs
    at = datetime.fromtimestamp(time.time() + 0.5, UTC).isoformat()
    id = await office.create(type="once", timestamp=at)
    async with office.running():
        with anyio.fail_after(20):
            await reached.wait()
    again = Office(tmp_path)
    async with again.running():
        await again.until(1)
    assert again.book.made == []
    assert "cut off" in (await again.get(id))["last_outcome"]


@pytest.mark.anyio
async def test_what_fails_is_tried_again_as_often_as_it_says_and_then_somebody_is_told(
    tmp_path: Path,
) -> None:
    office = Office(tmp_path)

    async def fails(made: Made) -> Json | Failed:
        said = f"no, token={CANARY}"
        return "posted" if made.tool == NOTIFY else Failed(call_id="call_1", code="raised", message=said)

    office.book.answer = fails
    at = datetime.fromtimestamp(time.time() + 0.5, UTC).isoformat()
    notices: Json = {
        "onFailure": [
            {"type": "webhook", "url": "https://bad.example/x"},
            {"type": "log"},
            {"type": "memory"},
        ],
        "onSuccess": [{"type": "webhook", "url": "https://good.example/x"}],
    }
    id = await office.create(type="once", timestamp=at, retryDelayMs=10, notifications=notices)
    async with office.running():
        await office.until(3)
        with anyio.fail_after(20):
            while "webhook" not in (await office.get(id))["last_outcome"]:
                await anyio.sleep(0.02)
    assert office.book.tools == ["a/b"] * 3 + [NOTIFY, "fs_write/execute"], "once, and twice again"
    assert {made.principal.id for made in office.book.made} == {f"agent:schedule/{id}"}
    row = await office.get(id)
    assert [each["attempt"] for each in row["firings"]] == [3, 2, 1]
    assert "answered with 500" in row["last_outcome"]
    assert "the memory was not written" in row["last_outcome"]
    ((url, told),) = office.posted
    assert (url, told["schedule"]) == ("https://bad.example/x", id)
    assert str(told["outcome"]).startswith("failed (raised): no")
    assert CANARY not in str(told), "what looks like a secret does not leave the machine"


@pytest.mark.anyio
async def test_a_webhook_is_posted_for_the_schedule_that_names_it_and_for_nobody_else(tmp_path: Path) -> None:
    office = Office(tmp_path)
    url = "https://good.example/x"
    id = await office.create(
        type="interval", intervalMs=600_000, notifications={"onFailure": [{"type": "webhook", "url": url}]}
    )
    other = await office.create(**minutes(10))
    about: dict[str, Json] = {"outcome": "completed"}
    for who, where in (
        (OWNER, url),
        ("agent:cli", url),
        ("skill:echo", url),
        (f"agent:trigger/{id}", url),
        (f"agent:schedule/{other}", url),
        ("agent:schedule/gone", url),
        (f"agent:schedule/{id}", "https://good.example/y"),
    ):
        with pytest.raises(OperationError) as error:
            await office.do("notify", by=who, url=where, about=about)
        assert error.value.code == "E_AGENT_FORBIDDEN"
    assert office.posted == []
    await office.do("notify", by=f"agent:schedule/{id}", url=url, about=about)
    assert office.posted == [(url, about)], "control"


@pytest.mark.anyio
@pytest.mark.parametrize("how", ["disable", "remove"])
async def test_what_was_switched_off_or_removed_is_not_tried_again(tmp_path: Path, how: str) -> None:
    office = Office(tmp_path)

    async def fails(made: Made) -> Failed:
        return Failed(call_id="call_1", code="raised", message="no")

    office.book.answer = fails
    at = datetime.fromtimestamp(time.time() + 0.5, UTC).isoformat()
    id = await office.create(type="once", timestamp=at, retryDelayMs=1_000)
    async with office.running():
        await office.until(1)
        await office.do(how, id=id)
        await anyio.sleep(1.5)
    assert office.book.tools == ["a/b"]


@pytest.mark.anyio
async def test_what_is_refused_is_not_tried_again(tmp_path: Path) -> None:
    office = Office(tmp_path)

    async def refuses(made: Made) -> Refused:
        return Refused(call_id="call_1", code="forbidden", reasons=("he lost his right",))

    office.book.answer = refuses
    at = datetime.fromtimestamp(time.time() + 0.5, UTC).isoformat()
    id = await office.create(type="once", timestamp=at, retryDelayMs=0)
    async with office.running():
        await office.until(1)
    assert office.book.tools == ["a/b"]
    assert (await office.get(id))["last_outcome"] == "refused (forbidden): he lost his right"


@pytest.mark.anyio
async def test_what_does_not_meet_its_conditions_is_skipped_and_somebody_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("METIER_ENVIRONMENT", "test")
    office = Office(tmp_path)
    at = datetime.fromtimestamp(time.time() + 0.5, UTC).isoformat()
    notices: Json = {"onSkip": [{"type": "webhook", "url": "https://good.example/skip"}]}
    id = await office.create(
        type="once", timestamp=at, conditions={"environment": ["production"]}, notifications=notices
    )
    async with office.running():
        await office.until(1)
        with anyio.fail_after(20):
            while not office.posted:
                await anyio.sleep(0.02)
    assert office.book.tools == [NOTIFY]
    assert "METIER_ENVIRONMENT is 'test'" in (await office.get(id))["last_outcome"]


@pytest.mark.anyio
async def test_a_schedule_that_takes_longer_than_it_may_is_ended(tmp_path: Path) -> None:
    office = Office(tmp_path)

    async def hangs(made: Made) -> Json:
        await anyio.sleep_forever()

    office.book.answer = hangs
    at = datetime.fromtimestamp(time.time() + 0.5, UTC).isoformat()
    id = await office.create(type="once", timestamp=at, timeoutMs=100, retryCount=0)
    async with office.running():
        await office.until(1)
    assert "timed_out" in (await office.get(id))["last_outcome"]


@pytest.mark.anyio
async def test_at_most_twenty_are_enabled_and_that_is_said(tmp_path: Path) -> None:
    office = Office(tmp_path)
    ids = [await office.create(**minutes(10)) for _ in range(20)]
    with pytest.raises(OperationError, match="20 schedules are enabled"):
        await office.create(**minutes(10))
    off = await office.create(enabled=False, **minutes(10))
    with pytest.raises(OperationError, match="20 schedules are enabled"):
        await office.do("enable", id=off)
    await office.do("disable", id=ids[0])
    await office.do("enable", id=off)
    with office.store.writing() as connection:  # one that is over does not count
        connection.execute("UPDATE schedule SET next_due = NULL WHERE id = ?", (ids[1],))
    await office.create(**minutes(10))


@pytest.mark.anyio
@pytest.mark.parametrize("bad", ["a name twice", "never due", "too many", "not understood"])
async def test_what_a_skill_declares_is_adopted_whole_or_not_at_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    office = Office(tmp_path)
    good: dict[str, Json] = {"name": "one", "tool": "a/b", **minutes(10)}
    others: dict[str, list[dict[str, Json]]] = {
        "a name twice": [{**good}],
        "never due": [{**good, "name": "two", "type": "once", "timestamp": "2020-01-01T00:00:00Z"}],
        "too many": [{**good, "name": f"n{number}"} for number in range(20)],
        "not understood": [{**good, "name": "two", "intervalMs": "often"}],
    }
    found = [good, *others[bad]]
    monkeypatch.setattr(operations, "declared_by", lambda *_: found)
    with pytest.raises(OperationError):
        await office.do("adopt", skill="desk")
    assert (await office.do("list"))["schedules"] == []
    found = [good]  # the control
    (shown,) = (await office.do("declared", skill="desk"))["schedules"]
    assert shown["definition"]["intervalMs"] == 600_000
    with pytest.raises(OperationError, match="changed since it was shown"):
        await office.do("adopt", skill="desk", digest="sha256:other")
    assert [each["name"] for each in (await office.do("adopt", skill="desk"))["adopted"]] == ["one"]


@pytest.mark.anyio
async def test_what_an_earlier_metier_wrote_down_as_missed_is_still_told(tmp_path: Path) -> None:
    at = time.time() - 5_000
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    with closing(sqlite3.connect(home / FILE)) as connection:
        connection.executescript(_TABLES[0])
        connection.execute(
            "INSERT INTO schedule VALUES ('sch_1', ?, '', 1, ?, ?, NULL, NULL, 'missed 1', 1)",
            (OWNER, f'{{"type":"once","name":"gone","tool":"a/b","timestamp":{int(at) * 1_000}}}', at - 9),
        )
        connection.execute(
            "INSERT INTO firing (kind, what, due, attempt, call_id, began_at, ended_at, outcome) "
            "VALUES ('schedule', 'sch_1', ?, 0, '', ?, ?, 'missed')",
            (float(int(at)), at + 90, at + 90),
        )
        connection.execute("PRAGMA user_version = 1")
        connection.commit()
    (home / FILE).chmod(0o600)
    office = Office(tmp_path)
    async with office.running():
        await office.looked()
    (missed,) = (await office.do("missed"))["missed"]
    assert (missed["name"], missed["missed"], len(missed["latest"])) == ("gone", 1, 1)
    assert (await office.get("sch_1"))["status"] == "over"
    assert office.book.made == []


@pytest.mark.anyio
async def test_a_broken_row_is_listed_and_the_others_are_done(tmp_path: Path) -> None:
    office = Office(tmp_path)
    bad = await office.create(**minutes(10))
    at = datetime.fromtimestamp(time.time() + 0.5, UTC).isoformat()
    await office.create(type="once", timestamp=at, tool="good/one")
    with office.store.writing() as connection:
        connection.execute("UPDATE schedule SET definition = '[]', next_due = 0 WHERE id = ?", (bad,))
    async with office.running():
        await office.until(1)
    assert office.book.tools == ["good/one"]
    rows = {row["id"]: row for row in (await office.do("list"))["schedules"]}
    assert rows[bad]["status"] == "broken"
    assert rows[bad]["problem"]
    with pytest.raises(OperationError):
        await office.do("run_now", id=bad)


@pytest.mark.anyio
async def test_it_can_be_done_now_by_who_set_it_up_or_the_owner_only(tmp_path: Path) -> None:
    office = Office(tmp_path)
    id = await office.create(by="human:anna", **minutes(10))
    for operation in ("run_now", "enable", "remove"):
        with pytest.raises(OperationError, match="only he may"):
            await office.do(operation, by="human:bert", id=id)
    done = await office.do("run_now", by="human:anna", id=id)
    assert (done["outcome"], done["value"]) == ("completed", "done")
    assert office.book.made[0].parent == "call_asked"
    assert office.book.made[0].principal.on_behalf_of == "human:anna"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("schedule", "said"),
    [
        ({"type": "sometimes"}, "cron, interval, once"),
        ({"type": "cron", "expression": "* * * *"}, "five fields"),
        ({"type": "cron", "expression": "61 * * * *"}, "cannot be read"),
        ({"type": "cron", "expression": "0 0 30 2 *"}, "cannot be read"),
        ({"type": "cron", "expression": "0 0 * * *", "timezone": "Mars/Olympus"}, "no time zone"),
        ({"type": "cron", "expression": "0 0 * * *", "timezone": "../../etc/passwd"}, "no time zone"),
        ({"type": "interval", "intervalMs": 9_999}, "intervalMs"),
        ({"type": "interval", "intervalMs": 60_000, "startAt": "tomorrow"}, "startAt"),
        ({"type": "once", "timestamp": "2030-01-01T00:00:00"}, "timestamp"),
        ({"type": "once", "timestamp": "2001-01-01T00:00:00Z"}, "in the past"),
        ({"type": "once", "timestamp": 10**15}, "timestamp"),
        ({"type": "interval", "intervalMs": 60_000, "tool": ""}, "tool"),
        (
            {
                "type": "interval",
                "intervalMs": 60_000,
                "conditions": {"activeHours": {"start": "9", "end": "10"}},
            },
            "09:00",
        ),
        ({"type": "interval", "intervalMs": 60_000, "conditions": {"daysOfWeek": ["someday"]}}, "no day"),
        (
            {
                "type": "interval",
                "intervalMs": 60_000,
                "notifications": {"onSkip": [{"type": "webhook", "url": "http://x.example"}]},
            },
            "https://",
        ),
        ({"type": "interval", "intervalMs": 60_000, "retryCount": 99}, "retryCount"),
        ({"type": "interval", "intervalMs": 60_000, "conditions": {"sessionActive": True}}, "sessionActive"),
    ],
)
async def test_what_would_never_be_due_is_refused_with_the_reason(
    tmp_path: Path, schedule: dict[str, Json], said: str
) -> None:
    office = Office(tmp_path)
    with pytest.raises(OperationError) as error:
        await office.create(**schedule)
    assert error.value.code.startswith("E_SCHEDULES_")
    assert said in error.value.message


@pytest.mark.anyio
async def test_a_webhook_is_posted_to_the_host_of_its_url_and_to_no_private_network(tmp_path: Path) -> None:
    authority = make_authority(tmp_path)
    answers = [reply(), reply("302 Found", Location="https://127.0.0.1/x"), reply("500 No")]
    listener = Listener(lambda _asked: answers.pop(0), authority.server("hooks.example"))
    world = World()
    world.put("hooks.example", listener)
    hooks = PostedWebhooks(lambda host: world.egress(host, extra_roots=authority.roots))
    try:
        assert await hooks.webhook("https://hooks.example/done", {"schedule": "s"}) == ""
        assert (listener.asked[0].line, listener.asked[0].body) == (
            "POST /done HTTP/1.1",
            b'{"schedule":"s"}',
        )
        assert "302" in await hooks.webhook("https://hooks.example/", {}), "redirects are not followed"
        assert "500" in await hooks.webhook("https://hooks.example/", {})
    finally:
        listener.close()
    world.names["inside.example"] = [["10.0.0.1"]]
    for url in (
        "https://127.0.0.1/x",
        "https://localhost/x",
        "https://169.254.169.254/x",
        "https://inside.example/",
    ):
        assert await hooks.webhook(url, {}) != ""
    for url in ("https://me@hooks.example/", "https:///x", "https://[::1/"):
        assert "cannot be used" in await hooks.webhook(url, {})
    assert {address for address, _ in world.dialled} == {PUBLIC}
