"""How a scheduled call went is never lost: who wants to be told is told, and what is listed is what was done."""

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import anyio
import pytest

from firing_kit import Made
from metier.catalog.catalog import Catalog
from metier.errors import StateError
from metier.kernel import schedule_firing
from metier.kernel.events import Happened
from metier.kernel.operation import OperationError
from metier.kernel.schedule_attempts import Attempt, ended
from metier.kernel.schedule_notice import NOTIFY, PostedWebhooks
from metier.kernel.store import Store
from metier.model.digest import Json
from metier.model.entry import Command
from metier.model.outcome import Failed
from metier.model.skill import Tool
from schedule_kit import Office, Wall, minutes, set_wall

FAR: Final = 3_600_000
TOLD: Final[Json] = {
    "onFailure": [{"type": "webhook", "url": "https://good.example/failed"}],
    "onSkip": [{"type": "webhook", "url": "https://good.example/skipped"}],
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def wall(monkeypatch: pytest.MonkeyPatch) -> Wall:
    return set_wall(monkeypatch)


def soon() -> dict[str, Json]:
    return {"type": "once", "timestamp": int(time.time() * 1_000) + 500, "notifications": TOLD}


def failing(**more: Any) -> Callable[[Made], Awaitable[Json | Failed]]:
    """Everything but telling somebody fails."""

    async def answer(made: Made) -> Json | Failed:
        if made.tool == NOTIFY:
            return "posted"
        return Failed(call_id=made.call_id, code="reported", message="no", **more)

    return answer


async def hanging(made: Made) -> Json:
    if made.tool == NOTIFY:
        return "posted"
    await anyio.sleep_forever()
    raise AssertionError


async def until_told(office: Office, count: int = 1) -> None:
    with anyio.fail_after(20):
        while len(office.posted) < count:
            await anyio.sleep(0.02)


async def until_said(office: Office, id: str, said: str) -> dict[str, Any]:
    with anyio.fail_after(20):
        while said not in (row := await office.get(id))["last_outcome"]:
            await anyio.sleep(0.02)
    return row


@pytest.mark.anyio
async def test_a_host_that_ends_between_two_attempts_says_so_when_it_is_back_and_tells_of_the_failure(
    tmp_path: Path,
) -> None:
    office = Office(tmp_path)
    office.book.answer = failing()
    id = await office.create(**soon(), retryDelayMs=FAR)
    async with office.running():
        shown = await until_said(office, id, "it is tried again")
        assert shown["firings"][0]["outcome"].startswith("to be tried again after: failed")
    again = Office(tmp_path)
    async with again.running():
        await until_told(again)
        row = await until_said(again, id, "cut off")
    assert again.book.tools == [NOTIFY], "it is not done again"
    assert "failed (reported): no" in row["last_outcome"]
    ((_, about),) = again.posted
    assert "cut off" in str(about["outcome"])
    async with again.running():  # nor told again
        await again.looked()
    assert len(again.posted) == 1


@pytest.mark.anyio
async def test_what_a_host_was_doing_when_it_ended_is_told_as_a_failure(tmp_path: Path) -> None:
    office = Office(tmp_path)
    office.book.answer = hanging
    id = await office.create(**soon())
    async with office.running():
        with anyio.fail_after(20):
            while not office.book.made:
                await anyio.sleep(0.02)
    again = Office(tmp_path)
    async with again.running():
        await until_told(again)
    assert again.posted[0][0] == "https://good.example/failed"
    assert "cut off" in (await again.get(id))["last_outcome"]


@pytest.mark.anyio
async def test_what_is_not_tried_again_because_it_was_switched_off_is_told_as_a_failure(
    tmp_path: Path,
) -> None:
    office = Office(tmp_path)
    office.book.answer = failing()
    id = await office.create(**soon(), retryDelayMs=1_500)
    async with office.running():
        await until_said(office, id, "it is tried again")
        await office.do("disable", id=id)
        await until_told(office)
        row = await office.get(id)
    assert office.book.tools == ["a/b", NOTIFY]
    assert row["last_outcome"].startswith("not tried again: it was switched off meanwhile")
    assert [each["attempt"] for each in row["firings"]] == [2, 1]
    assert "under way" not in str(row["firings"])


@pytest.mark.anyio
async def test_what_is_not_tried_again_because_its_skill_is_gone_is_told_as_a_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    office = Office(tmp_path)
    office.book.answer = failing()
    firing: Any = office.schedules._firing  # pyright: ignore[reportPrivateUsage]
    id = await office.create(**soon(), retryDelayMs=1_500)
    async with office.running():
        await until_said(office, id, "it is tried again")
        monkeypatch.setattr(firing, "_against", lambda _: "the skill it came with cannot be used: gone")
        await until_told(office)
    assert office.book.tools == ["a/b", NOTIFY]
    assert "not tried again: the skill" in (await office.get(id))["last_outcome"]


@pytest.mark.anyio
async def test_what_is_skipped_because_the_one_before_still_runs_is_told(tmp_path: Path, wall: Wall) -> None:
    office = Office(tmp_path)
    office.book.answer = hanging
    id = await office.create(**minutes(10), notifications=TOLD)
    heard: list[Happened] = []
    with office.events.listening(heard.append):
        async with office.running():
            for count, ahead in ((1, 601), (2, 1_201)):
                wall.ahead = ahead
                with anyio.fail_after(20):
                    while len(office.book.made) < count:
                        await office.looked(1)
            await until_told(office)
            row = await office.get(id)
    assert row["last_outcome"] == "skipped: the one before it still runs"
    assert [url for url, _ in office.posted] == ["https://good.example/skipped"]
    assert [each.name for each in heard] == ["schedules.fired"]


@pytest.mark.anyio
async def test_what_a_person_has_done_now_is_listed_also_where_the_schedule_is_switched_off(
    tmp_path: Path,
) -> None:
    office = Office(tmp_path)
    id = await office.create(**minutes(60), enabled=False)
    done = await office.do("run_now", id=id)
    (fired,) = (await office.get(id))["firings"]
    assert (fired["outcome"], fired["call_id"]) == ("completed", done["call_id"])
    assert not (await office.get(id))["enabled"]


@pytest.mark.anyio
async def test_one_damaged_number_is_that_schedules_matter_alone(tmp_path: Path) -> None:
    office = Office(tmp_path)
    bad, good = await office.create(**minutes(60)), await office.create(**minutes(60))
    await office.do("run_now", id=good)
    with office.store.writing() as connection:
        connection.execute("UPDATE schedule SET next_due = 1e18 WHERE id = ?", (bad,))
        connection.execute("UPDATE firing SET due = 1e18 WHERE what = ?", (good,))
    listed = {each["id"]: each for each in (await office.do("list"))["schedules"]}
    assert listed[bad]["status"] == "broken"
    assert "remove it" in listed[bad]["problem"]
    assert listed[good]["status"] == "enabled"
    assert (await office.get(good))["firings"][0]["due"] is None
    await office.do("missed")
    await office.do("remove", id=bad)


@pytest.mark.anyio
@pytest.mark.parametrize("code", ["pending_approval", "approval_required", "forbidden", "E_AGENT_FORBIDDEN"])
async def test_what_waits_for_a_word_or_was_refused_further_inside_is_not_asked_for_again(
    tmp_path: Path, code: str
) -> None:
    office = Office(tmp_path)
    office.book.answer = failing(value={"code": code, "message": "no"})
    await office.create(**soon(), retryDelayMs=0, tool="skills.call")
    async with office.running():
        await until_told(office)
    assert office.book.tools == ["skills.call", NOTIFY]


@pytest.mark.anyio
async def test_another_failure_that_was_reported_is_tried_again(tmp_path: Path) -> None:
    office = Office(tmp_path)
    office.book.answer = failing(value={"code": "E_KETTLE_EMPTY", "message": "no"})
    await office.create(**soon(), retryDelayMs=0, tool="skills.call")
    async with office.running():
        await until_told(office)
    assert office.book.tools == ["skills.call"] * 3 + [NOTIFY]


@pytest.mark.anyio
async def test_a_call_that_took_too_long_is_listed_with_its_id(tmp_path: Path) -> None:
    office = Office(tmp_path)
    office.book.answer = hanging
    id = await office.create(**soon(), timeoutMs=100, retryCount=0)
    async with office.running():
        await office.until(1)
    (fired,) = (await office.get(id))["firings"]
    assert fired["call_id"] == office.book.made[0].call_id != ""


@pytest.mark.anyio
@pytest.mark.parametrize("which", [1, 2, 3])
async def test_how_it_went_is_not_lost_where_the_file_is_held_at_that_moment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: int
) -> None:
    office = Office(tmp_path)
    office.book.answer = failing()
    tried = 0

    def busy_once(store: Store, done: Attempt) -> None:
        nonlocal tried
        tried += 1
        if tried == which:
            raise StateError("kernel.db is being written to: process 7 holds it")
        ended(store, done)

    monkeypatch.setattr(schedule_firing, "ended", busy_once)
    id = await office.create(**soon(), retryDelayMs=10)
    async with office.running():
        await until_told(office)
        await office.looked()
        row = await office.get(id)
    assert office.book.tools == ["a/b"] * 3 + [NOTIFY]
    assert [(each["attempt"], each["outcome"]) for each in row["firings"]] == [
        (3, "failed (reported): no"),
        (2, "failed (reported): no; it is tried again"),
        (1, "failed (reported): no; it is tried again"),
    ]
    assert row["last_outcome"] == "failed (reported): no"


@pytest.mark.anyio
@pytest.mark.parametrize(
    "url",
    [
        "https://",
        "https://127.0.0.1/x",
        "https://[::1]/",
        "https://localhost/",
        "https://169.254.169.254/",
        "https://a b/",
        "https://bob:s3cretpass@hooks.example.com/x",
        "https://hooks.example.com:0/",
    ],
)
async def test_a_webhook_that_can_never_be_told_is_refused_and_nothing_of_it_is_quoted(
    tmp_path: Path, url: str
) -> None:
    office = Office(tmp_path)
    notices: Json = {"onFailure": [{"type": "webhook", "url": url}]}
    with pytest.raises(OperationError, match="a webhook's `url` cannot be used") as error:
        await office.create(**minutes(10), notifications=notices)
    assert "s3cretpass" not in error.value.message
    # One that was set up earlier says no more.
    assert "s3cretpass" not in await PostedWebhooks().webhook(url, {})
    good: Json = {"onFailure": [{"type": "webhook", "url": "https://hooks.example.com:8443/x?y=z"}]}
    await office.create(**minutes(10), notifications=good)


class Skill:
    name = "desk"
    tools = (
        Tool(name="desk/tidy", description="", parameters={"type": "object"}, entry=Command(argv=("true",))),
    )

    def __init__(self, *schedules: Json) -> None:
        self.extra: dict[str, Json] = {"schedules": [*schedules]}


class Listed:
    shown, why = "usable", ""

    def __init__(self, *schedules: Json) -> None:
        self.skill: Any = Skill(*schedules)


@pytest.mark.anyio
async def test_a_skill_schedules_only_actions_that_it_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    office = Office(tmp_path)
    good: Json = {"id": "a", "actionId": "tidy", **minutes(10)}
    bad: Json = {"id": "b", "actionId": "nothere", **minutes(10)}

    def declaring(*schedules: Json) -> None:
        by_name: Any = {"desk": Listed(*schedules)}
        monkeypatch.setattr(office.schedules, "_catalog", lambda: Catalog(by_name=by_name))

    declaring(good, bad)
    for operation in ("declared", "adopt"):
        with pytest.raises(OperationError, match="'desk' has no action 'nothere'"):
            await office.do(operation, skill="desk")
    assert (await office.do("list"))["schedules"] == []
    declaring(good)
    assert len((await office.do("adopt", skill="desk"))["adopted"]) == 1
