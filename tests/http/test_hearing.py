"""What happens in the host reaches who listens at a server, also where the host is another process; and again when there is a host again."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from host_line_kit import Desk
from metier.doors.http import hearing
from metier.doors.http.live import Change
from metier.kernel.operation import Asked
from metier.model.call import Principal
from serve_kit import Premises

ANN = Principal(id="human:ann", kind="human")


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    monkeypatch.setattr(hearing, "_AGAIN_SECONDS", 0.05)
    return Premises(tmp_path, monkeypatch)


async def nothing(_asked: Asked) -> None:
    return None


async def heard(stream: Any, desk: Desk, name: str) -> list[Change]:
    """Until it is told of this event, which is emitted until then: who begins to listen misses what was before."""
    got: list[Change] = []
    with anyio.fail_after(10):
        while not any(each.state == name for each in got):
            desk.events.emit(name, {"secret": "payload"})
            with anyio.move_on_after(0.1):
                got.append(await stream.receive())
    return got


def test_events_of_a_host_elsewhere_are_told_by_name_and_again_after_it_was_gone(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house:
            live = house.door.serving.live
            desk = Desk(premises.machine.state)
            try:
                _, stream, stop = await live.listen(ANN, None, lambda _: True)
                for name in ("channels.message.received", "schedules.fired"):
                    async with desk.serving(nothing):
                        got = await heard(stream, desk, name)
                    assert "payload" not in repr(got) and {each.kind for each in got} <= {
                        "event",
                        "host.changed",
                    }
                stop()
            finally:
                desk.database.close()

    anyio.run(main)


def test_while_nobody_listens_no_host_is_asked(premises: Premises, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    class Line:
        def __init__(self, home: str) -> None:
            asked.append(home)

        def events(self) -> None:
            raise hearing.OperationError("busy", "not now")

    monkeypatch.setattr(hearing, "HostLine", Line)

    async def main() -> None:
        async with premises.serving() as house:
            await anyio.sleep(0.3)
            assert asked == []
            _, _, stop = await house.door.serving.live.listen(ANN, None, lambda _: True)
            with anyio.fail_after(5):
                while not asked:
                    await anyio.sleep(0.02)
            stop()

    anyio.run(main)
