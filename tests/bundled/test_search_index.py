"""search_index finds memories of a workspace by words and by meaning, as an agent calls it."""

import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from core_desk import Desk, code_of, value, why
from metier.catalog.here import owner
from metier.memory import refresh
from metier.memory.memory import Memory, read
from metier.model.diagnostic import Diagnostic
from metier.model.outcome import Failed, Outcome, Pending, Refused
from metier.record.stop import stop
from metier.runtime import memory

SEARCH = "search_index/execute"
TEA = "We bought jasmine tea at the market on Saturday morning."
DOCTOR = "The dentist filled a tooth on the upper left side."


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(tmp_path, monkeypatch)
    yield made
    made.close()


def remember(desk: Desk, name: str, content: str, **fields: Any) -> Path:
    path = desk.workspace / "memory" / f"{name}.json"
    path.write_text(json.dumps({"content": content, **fields}))
    return path


def found(outcome: Outcome) -> list[str]:
    """The paths, best first; the count is their number."""
    told = value(outcome)
    assert told["count"] == len(told["results"])
    return [each["path"] for each in told["results"]]


def configure(desk: Desk, text: str) -> None:
    path = desk.machine.state / "metier.toml"
    path.write_text(text)
    path.chmod(0o600)


def test_memories_are_found_by_words_and_by_meaning_with_how_alike_they_are(desk: Desk) -> None:
    remember(desk, "tea", TEA, title="Shopping", tags=["home"], timestamp="2026-01-03")
    remember(desk, "doctor", DOCTOR)
    (desk.workspace / "memory" / "walk.md").write_text("# A walk\n\nWe walked along the river in the rain.\n")
    told = value(desk.call(SEARCH, query="jasmine tea"))
    assert told["success"] is True
    first = told["results"][0]
    assert first.pop("similarity") > 0.5
    assert first == {
        "path": "memory/tea.json",
        "id": "tea",
        "title": "Shopping",
        "snippet": TEA,
        "timestamp": "2026-01-03",
        "tags": ["home"],
    }
    assert found(desk.call(SEARCH, query="the appointment about my teeth"))[:1] == ["memory/doctor.json"]


def test_what_is_written_or_gone_meanwhile_counts_at_once(desk: Desk) -> None:
    assert found(desk.call(SEARCH, query="jasmine tea")) == []
    tea = remember(desk, "tea", TEA)
    assert found(desk.call(SEARCH, query="jasmine tea")) == ["memory/tea.json"]
    tea.unlink()
    assert found(desk.call(SEARCH, query="jasmine tea")) == []


def test_a_private_memory_is_found_only_where_the_operator_says_so(desk: Desk) -> None:
    remember(desk, "tea", TEA, private=True)
    assert found(desk.call(SEARCH, query="jasmine tea")) == []
    configure(desk, "[memory]\nprivate = true\n")
    told = value(desk.call(SEARCH, query="jasmine tea"))
    assert [(each["path"], each["private"]) for each in told["results"]] == [("memory/tea.json", True)]


def test_no_more_than_the_limit_and_nothing_less_alike_is_told(desk: Desk) -> None:
    for number in range(12):
        remember(desk, f"tea{number:02}", f"{TEA} It was visit number {number}.")
    remember(desk, "doctor", DOCTOR)
    assert len(found(desk.call(SEARCH, query="jasmine tea"))) == 10
    assert len(found(desk.call(SEARCH, query="jasmine tea", limit=3))) == 3
    every = desk.call(SEARCH, query="jasmine tea", limit=100, minSimilarity=0)
    assert "memory/doctor.json" in found(every)
    assert found(desk.call(SEARCH, query="jasmine tea", minSimilarity=1)) == []


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"query": " "}, "query is empty"),
        ({"query": "tea", "limit": 0}, "limit"),
        ({"query": "tea", "limit": 2.5}, "limit"),
        ({"query": "tea", "limit": 1_000_000}, "limit"),
        ({"query": "tea", "minSimilarity": 2}, "minSimilarity"),
        ({"query": "x" * 5_000}, "query"),
    ],
)
def test_what_cannot_be_searched_for_is_said(desk: Desk, given: dict[str, Any], said: str) -> None:
    assert said in why(desk.call(SEARCH, **given))


def test_where_the_extra_is_missing_it_is_named(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    remember(desk, "tea", TEA)
    monkeypatch.setitem(sys.modules, "numpy", None)
    assert "pip install 'metier[memory]'" in why(desk.call(SEARCH, query="tea"))


def test_memories_elsewhere_are_not_searched(desk: Desk, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "tea.json").write_text(json.dumps({"content": TEA}))
    os.rmdir(desk.workspace / "memory")
    (desk.workspace / "memory").symlink_to(elsewhere)
    said = why(desk.call(SEARCH, query="jasmine tea"))
    assert "is a link" in said
    assert str(tmp_path) not in said


def test_an_index_that_cannot_be_used_is_a_clear_error_without_a_path(desk: Desk) -> None:
    remember(desk, "tea", TEA)
    cache = desk.machine.state / "cache" / "memory"
    cache.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    cache.write_text("not a folder")
    said = why(desk.call(SEARCH, query="jasmine tea"))
    assert "the log of Metier says why" in said
    assert str(desk.machine.state) not in said


def test_fs_30_the_name_of_a_file_forges_no_line_of_the_log(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    folder = desk.workspace / "memory"
    (folder / "a\n2026-11-16 CRITICAL metier: all is lost \x1b[31m.json").write_text("{")
    os.mkfifo(folder / "b\nforged.json")  # its message names it too
    with caplog.at_level("INFO", logger="metier.memory"):
        assert found(desk.call(SEARCH, query="jasmine tea")) == []
    said = [each.getMessage() for each in caplog.records if each.name == "metier.memory"]
    assert len(said) == 2
    assert all("is not among the memories" in each and each.isprintable() for each in said)


def test_what_is_no_memory_is_in_the_log_once_and_again_when_it_changed(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    (desk.workspace / "memory" / "half.json").write_text('{"content": "half')
    with caplog.at_level("INFO", logger="metier.memory"):
        for _ in range(3):
            desk.call(SEARCH, query="jasmine tea")
        assert len(caplog.records) == 1
        (desk.workspace / "memory" / "half.json").write_text("[]")
        desk.call(SEARCH, query="jasmine tea")
    assert ["no strict JSON" in caplog.text, "but no object" in caplog.text] == [True, True]
    assert len(caplog.records) == 2


def test_where_the_time_was_too_short_for_all_memories_the_answer_says_so(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember(desk, "tea", TEA)
    monkeypatch.setattr(memory, "_SECONDS", 0.0)
    assert value(desk.call(SEARCH, query="jasmine tea")) == {
        "success": True,
        "results": [],
        "count": 0,
        "incomplete": True,
    }
    monkeypatch.setattr(memory, "_SECONDS", 60.0)
    told = value(desk.call(SEARCH, query="jasmine tea"))
    assert (told["count"], "incomplete" in told) == (1, False)


def test_when_everything_is_stopped_memories_are_read_no_further(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(400):
        remember(desk, f"tea{number}", TEA)
    begun, looked = threading.Event(), list[str]()

    def slowly(data: bytes, path: str) -> Memory | Diagnostic:
        looked.append(path)
        begun.set()
        time.sleep(0.02)  # as a large file takes
        return read(data, path)

    monkeypatch.setattr(refresh, "read", slowly)
    monkeypatch.setattr(memory, "_SECONDS", 60.0)  # so that this is not what ends it
    ended: list[Outcome] = []
    assert desk.runtime is not None
    calling = threading.Thread(target=lambda: ended.append(desk.call(SEARCH, query="jasmine tea")))
    calling.start()
    assert begun.wait(20)
    with desk.database() as database:
        stop(database, by=owner())
    calling.join()
    desk.close()  # waits for what still runs
    assert isinstance(ended[0], Failed)
    assert ended[0].code == "interrupted"
    assert len(looked) < 400


def test_searches_have_a_window_of_their_own(desk: Desk) -> None:
    configure(desk, "[budgets.memory]\ncalls = 2\nseconds = 86400\n")
    remember(desk, "tea", TEA)
    for _ in range(2):
        assert found(desk.call(SEARCH, query="jasmine tea")) == ["memory/tea.json"]
    assert "[budgets.memory]" in why(desk.call(SEARCH, query="jasmine tea"))


def test_where_everything_is_asked_a_search_is_asked_once(desk: Desk) -> None:
    remember(desk, "tea", TEA)
    desk.level("observe")
    outcome = desk.call(SEARCH, query="jasmine tea")
    assert isinstance(outcome, Pending)
    assert found(desk.approve(outcome)) == ["memory/tea.json"]


def test_the_skill_itself_can_read_no_memory(desk: Desk) -> None:
    (tool,) = [each for skill in desk.runtime.skills for each in skill.tools if each.name == SEARCH]
    assert tool.permissions.plain() == {"operations": ["memory.search"]}


def test_it_is_of_low_risk_expensive_and_there_at_observe(desk: Desk) -> None:
    (tool,) = [each for skill in desk.runtime.skills for each in skill.tools if each.name == SEARCH]
    assert (tool.risk, tool.cost, tool.minimum_trust, tool.approval, tool.effect) == (
        "low",
        "expensive",
        "observe",
        "policy",
        "read",
    )


def test_the_operation_behind_it_is_nobody_elses(desk: Desk) -> None:
    outcome = desk.call("memory.search", query="jasmine tea")
    assert isinstance(outcome, Refused)
    assert outcome.code == "forbidden"
    assert outcome.reasons == ("not granted: operations memory.search",)
    assert "memory__search" not in {each["function"]["name"] for each in desk.runtime.tools("openai")}
    for guessed in ("memory.searc", "qqqqqqqq"):
        unknown = desk.call(guessed)
        assert isinstance(unknown, Refused)
        assert "memory.search" not in unknown.remedy
        assert "agents." not in unknown.remedy


def test_a_fault_of_the_handler_is_no_refusal_of_the_host() -> None:
    class Broken:
        class Error(Exception):
            pass

        def operate(self, *_: object) -> object:
            raise KeyError("a fault")

    with pytest.raises(KeyError):
        code_of("search_index").execute({"query": "tea"}, Broken())
