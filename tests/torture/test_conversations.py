"""Conversations under torture: connections are cut, answers get lost, updates are told twice, and the host is killed in the middle. Each
message is stored exactly once and in order, and each reply is sent at least once; one that was sent again is marked."""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from metier.doors.telegram.configured import SKILL_ID
from metier.kernel.store import Store
from metier.model.outcome import Completed
from metier.runtime.as_owner import operate
from metier.testing.bot_api import BotApiServer
from telegram_desk import Desk

MANY = bool(os.environ.get("METIER_TORTURE"))
MESSAGES = 10_000 if MANY else 500
CHATS = 250 if MANY else 25
KILLS = 60 if MANY else 5
LONGEST = 3_600 if MANY else 300
ANSWER = {
    "name": "answer",
    "type": "message",
    "patterns": ["message"],
    "contextTemplate": "re: {{message.text}}",
    "perMinute": 6_000,
}


class Host:
    """`metier host` in a process of its own, which can be killed."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._log = open(desk.home.parent / "host.log", "ab")  # noqa: SIM115  closed with the host
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        environ = {**os.environ, "METIER_HOME": str(self._desk.home), "HOME": str(self._desk.home)}
        command = [sys.executable, "-m", "metier", "host"]
        self._process = subprocess.Popen(
            command,
            cwd=self._desk.project,
            env=environ,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(30)

    def close(self) -> None:
        self.kill()
        self._log.close()


def until(holds: Callable[[], object], seconds: float) -> bool:
    """Whether it came to hold in that time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.1)
    return bool(holds())


def done(desk: Desk, tool: str, **arguments: Any) -> Any:
    """The owner has something done; None where that was not to be."""
    outcome = anyio.run(operate, desk.settings(), tool, arguments)
    return outcome.value if isinstance(outcome, Completed) else None


def set_up(desk: Desk, host: Host, people: list[int]) -> None:
    desk.more = f"""
[xbot]
enabled = ["{SKILL_ID}"]
[budgets]
principal = {{ calls = 1000000, seconds = 60 }}
tool = {{ calls = 1000000, seconds = 60 }}
skill = {{ calls = 1000000, seconds = 60 }}
cheap = {{ calls = 1000000, seconds = 60 }}
[announce]
terminal = false
"""
    desk.settings()
    host.start()
    patch = {
        "bot_token": desk.telegram.token,
        "admin_chat_ids": [str(user) for user in people],
        "auto_start": True,
        "polling": {"timeout_sec": 5},
    }
    assert until(
        lambda: (done(desk, "settings.set_skill", skill_id=SKILL_ID, patch=patch) or {}).get("ok"), 60
    )
    assert done(desk, "triggers.create", trigger=ANSWER) is not None
    host.kill()


def stored(desk: Desk) -> list[tuple[str, str, str, int]]:
    """Every message: chat, direction, text and how often it was tried, in order."""
    store = Store(str(desk.home))
    try:
        with store.reading() as connection:
            return connection.execute(
                "SELECT thread.chat, direction, text, attempts FROM message JOIN thread ON thread.id = message.thread"
                " ORDER BY message.id"
            ).fetchall()
    finally:
        store.close()


@pytest.mark.slow
@pytest.mark.timeout(LONGEST + 120)
def test_each_message_is_stored_once_and_answered_at_least_once_whatever_is_cut_killed_or_told_twice(
    tmp_path: Path,
) -> None:
    chance = random.Random(7)  # noqa: S311  the same every time
    people = [2_000 + count for count in range(CHATS)]
    said: dict[int, list[str]] = {user: [] for user in people}
    with BotApiServer() as telegram:
        desk = Desk(tmp_path, telegram)
        host = Host(desk)
        try:
            set_up(desk, host, people)
            host.start()
            began, rounds = time.monotonic(), KILLS + 1
            for round_ in range(rounds):
                for count in range(MESSAGES * round_ // rounds, MESSAGES * (round_ + 1) // rounds):
                    user = chance.choice(people)
                    said[user].append(f"message {count}")
                    telegram.state.message(user, f"message {count}")
                    if chance.random() < 0.02:
                        telegram.cut(1, after=chance.random() < 0.5)
                    if chance.random() < 0.02:
                        telegram.state.again = chance.randrange(1, 20)
                if chance.random() < 0.3:
                    telegram.flood(1)
                if round_ < KILLS:
                    enough = MESSAGES * (round_ + chance.random()) // rounds
                    until(lambda wanted=enough: len(telegram.state.sent) >= wanted, LONGEST / rounds / 2)
                    host.kill()
                    host.start()
            total = sum(map(len, said.values()))
            whole = LONGEST - (time.monotonic() - began)
            assert until(
                lambda: len({(each.chat, each.text) for each in telegram.state.sent}) >= total, whole
            ), (
                f"{len(telegram.state.sent)} of {total} answered\n"
                + (tmp_path / "host.log").read_text(encoding="utf-8")[-3_000:]
            )
        finally:
            host.close()
        rows = stored(desk)
        for user, texts in said.items():
            came = [text for chat, direction, text, _ in rows if (chat, direction) == (str(user), "in")]
            assert came == texts, "each once, in the order in which they were written"
            went = telegram.texts(user)
            first = list(dict.fromkeys(went))
            assert first == [f"re: {text}" for text in texts], "each answered, and in order"
            twice = {text for text, times in Counter(went).items() if times > 1}
            tried = {
                text
                for chat, way, text, attempts in rows
                if chat == str(user) and way == "out" and attempts > 1
            }
            assert twice <= tried, "what was sent again is marked"
