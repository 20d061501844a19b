"""A host of its own, for tests that kill it: sends what waits, and writes down what it sent and what it was told.

    python switchboard_child.py HOME FOLDER

Each line is written at once and in one piece. It ends by itself when nothing is left to do.
"""

import os
import sys
from pathlib import Path

import anyio

import metier.kernel.delivery_rows as delivery_rows
from metier.kernel.conversation_inbox import RECEIVED
from metier.kernel.events import Happened
from switchboard import Switchboard

delivery_rows._FIRST_PAUSE = 0.02  # pyright: ignore[reportPrivateUsage]


def main(home: str, folder: str) -> None:
    board = Switchboard(home)
    sent = os.open(Path(folder) / "sent", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    class Writes:
        async def send(self, chat: str, text: str, *, key: str, reply_to: str | None) -> str | None:
            await anyio.sleep(0.001)
            os.write(sent, f"{chat} {text}\n".encode())
            await anyio.sleep(0.002)
            return None

    board.connectors.connect("telegram", Writes())

    async def answer(chat: str, text: str, id: int) -> None:
        await board.say(f"re-{text}", chat=chat, key=f"answer:{id}")
        await board.inbox.mark_handled(id)

    async def run() -> None:
        async with anyio.create_task_group() as tasks:

            def heard(happened: Happened) -> None:
                if happened.name == RECEIVED and isinstance(happened.payload, dict):
                    id = happened.payload["message"]
                    assert isinstance(id, int)
                    board.inbox.keep(id)
                    tasks.start_soon(answer, str(happened.payload["chat"]), str(happened.payload["text"]), id)

            with board.events.listening(heard):
                async with board.running():
                    while not await anyio.to_thread.run_sync(done, board):
                        await anyio.sleep(0.05)
            tasks.cancel_scope.cancel()

    anyio.run(run)


def done(board: Switchboard) -> bool:
    with board.store.reading() as connection:
        (left,) = connection.execute(
            "SELECT count(*) FROM message WHERE state IN ('waiting', 'sending', 'received')"
        ).fetchone()
    return left == 0


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
