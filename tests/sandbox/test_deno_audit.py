"""What is read of an engine's audit stays bounded, whatever is written there."""

import os
import time

import anyio

from metier.sandbox import deno_audit
from metier.sandbox.deno_audit import Audit

LINE = b'{"v":1,"permission":"read","value":"/srv/%d"}\n'


def test_after_very_many_lines_only_how_it_died_is_still_looked_for() -> None:
    audit = Audit(reads=[], writes=[], variables=[])

    async def main() -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(audit.run)
            for number in range(deno_audit._MOST_LINES // 1_000 + 2):
                await anyio.to_thread.run_sync(os.write, audit.theirs, b"\n" * 1_000)
                if number == 0:
                    await anyio.to_thread.run_sync(os.write, audit.theirs, LINE % 1)
            await anyio.sleep(0.05)
            await anyio.to_thread.run_sync(os.write, audit.theirs, LINE % 2 + b"out of memory\n")
            audit.close_theirs()

    anyio.run(main)
    audit.close()
    assert [each.detail for each in audit.denials] == ["/srv/1"]
    assert audit.out_of_memory


def test_whoever_reads_much_rests_so_that_others_have_the_loop() -> None:
    audit = Audit(reads=[], writes=[], variables=[])
    rested: list[float] = []

    async def main() -> None:
        slept = anyio.sleep

        async def sleep(seconds: float) -> None:
            rested.append(seconds)
            await slept(0)

        def slow(line: bytes) -> None:
            until = time.thread_time() + 0.01
            while time.thread_time() < until:
                pass

        deno_audit.anyio.sleep, audit._read = sleep, slow  # type: ignore[method-assign]
        try:
            os.write(audit.theirs, b"one\n")
            audit.close_theirs()
            await audit.run()
        finally:
            deno_audit.anyio.sleep = slept

    anyio.run(main)
    audit.close()
    assert rested and rested[0] > 0.01
