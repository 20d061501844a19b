"""Many who find the state busy look once, and nobody is told what was so before he asked."""

import anyio
import pytest

from metier.runtime.one_look import OneLook


def test_those_who_wait_share_a_look_that_begins_after_each_asked() -> None:
    async def main() -> None:
        looks: list[int] = []
        changed = [0]

        async def look() -> int:
            seen = changed[0]
            looks.append(seen)
            await anyio.sleep(0.02)
            return seen

        one = OneLook(look)
        found: list[tuple[int, int]] = []

        async def ask() -> None:
            asked = changed[0]
            found.append((asked, await one()))

        async with anyio.create_task_group() as tasks:
            for number in range(200):
                tasks.start_soon(ask)
                if number % 50 == 0:
                    await anyio.sleep(0.005)
                    changed[0] += 1
        assert len(found) == 200
        assert all(seen >= asked for asked, seen in found)
        assert len(looks) < 10

    anyio.run(main)


def test_whoever_goes_away_or_fails_while_he_looks_leaves_nobody_waiting() -> None:
    async def main() -> None:
        begun: list[anyio.Event] = []
        fails = False

        async def look() -> str:
            begun.append(anyio.Event())
            await anyio.sleep(0.02)
            if fails:
                raise ValueError("it cannot be read")
            return "seen"

        one = OneLook(look)
        found: list[str] = []

        async def ask() -> None:
            found.append(await one())

        async with anyio.create_task_group() as tasks:
            with anyio.CancelScope() as scope:
                tasks.start_soon(ask)
                tasks.start_soon(ask)
                with anyio.move_on_after(0.001):
                    await one()
                scope.cancel()
        assert found == ["seen", "seen"]
        fails = True
        for _ in range(2):
            with pytest.raises(ValueError, match="cannot be read"):
                await one()
        fails = False
        assert await one() == "seen"

    anyio.run(main)
