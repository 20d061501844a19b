"""A host that is killed in the middle: what came in is answered once, what goes out is sent at least once and marked, in order."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter, defaultdict
from pathlib import Path

import anyio
import pytest

from switchboard import Switchboard, private

CHILD = Path(__file__).parents[1] / "switchboard_child.py"
CHATS = ("a", "b", "c")
MESSAGES = 40
KILLS = 4


def lines(folder: Path) -> list[tuple[str, str]]:
    try:
        written = (folder / "sent").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    return [(chat, text) for chat, _, text in (line.partition(" ") for line in written)]


def started(home: str, folder: Path) -> "subprocess.Popen[bytes]":
    environment = {**os.environ, "PYTHONPATH": str(CHILD.parent)}
    return subprocess.Popen([sys.executable, str(CHILD), home, str(folder)], env=environment)


@pytest.mark.slow
def test_a_killed_host_loses_no_message_and_answers_none_twice_but_marked(tmp_path: Path) -> None:
    home, folder = private(tmp_path), tmp_path / "out"
    folder.mkdir()
    board = Switchboard(home)

    async def fill() -> None:
        for number in range(MESSAGES):
            for _ in range(2):  # each update is delivered twice
                await board.came_in(f"m{number:03}", chat=CHATS[number % 3], id=str(number))

    anyio.run(fill)
    board.store.close()
    for kill in range(KILLS):
        child = started(home, folder)
        enough = (kill + 1) * MESSAGES // (KILLS + 2)
        deadline = time.monotonic() + 60
        while child.poll() is None and len(lines(folder)) < enough and time.monotonic() < deadline:
            time.sleep(0.002)
        child.send_signal(signal.SIGKILL)
        assert child.wait() in (-signal.SIGKILL, 0)
        assert len(lines(folder)) >= enough
    last = started(home, folder)
    assert last.wait(timeout=60) == 0

    after = Switchboard(home)
    with after.store.reading() as connection:
        inbound = connection.execute(
            "SELECT count(*), count(DISTINCT channel_message), sum(state = 'handled') FROM message WHERE direction = 'in'"
        ).fetchone()
        outbound = connection.execute(
            """SELECT chat, text, state, attempts, doubtful FROM message JOIN thread ON thread.id = message.thread
               WHERE direction = 'out' ORDER BY message.id"""
        ).fetchall()
    assert inbound == (MESSAGES, MESSAGES, MESSAGES), "each stored exactly once, and handled"
    assert len(outbound) == MESSAGES, "each answered once, also those that were handled twice"
    assert {state for _, _, state, _, _ in outbound} == {"sent"}
    sent = Counter(lines(folder))
    doubtful = {(chat, text): mark for chat, text, _, _, mark in outbound}
    for each, times in sent.items():
        assert 1 <= times <= 1 + doubtful[each], "what was sent twice is marked"
    assert sent.keys() == doubtful.keys()
    firsts: dict[str, list[str]] = defaultdict(list)
    for chat, text in lines(folder):
        if text not in firsts[chat]:
            firsts[chat].append(text)
    for chat in CHATS:
        assert firsts[chat] == sorted(firsts[chat]), "the order of each chat is kept"


def test_a_host_killed_while_it_sends_sends_again_and_says_so(tmp_path: Path) -> None:
    """The moment itself, without chance: claimed, sent, and never marked."""
    home = private(tmp_path)
    before = Switchboard(home)
    anyio.run(lambda: before.say("hello"))
    with before.store.writing() as connection:
        connection.execute("UPDATE message SET state = 'sending', attempts = 1")
    before.store.close()

    from metier.kernel.deliveries import RETRIED
    from switchboard import Post

    after, post = Switchboard(home), Post()
    after.connectors.connect("telegram", post)

    async def main() -> None:
        async with after.running():
            await after.until(lambda: after.message(1).state == "sent")

    anyio.run(main)
    done = after.message(1)
    assert (post.sent, done.attempts, done.doubtful) == ([("c", "hello")], 2, 1)
    assert [each.payload["message"] for each in after.named(RETRIED) if isinstance(each.payload, dict)] == [1]
