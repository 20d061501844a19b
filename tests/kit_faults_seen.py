"""Sandboxes that show, lend or keep more than they may. As in `kit_faults`, each has one fault."""

import os
from contextlib import ExitStack
from typing import Any

from msgspec.structs import replace

from kit_backends import bubblewrap_straight, changed
from kit_faults import Faulty, with_fault
from metier.model.job import Job, Place, Report
from metier.sandbox import kept, lend
from metier.sandbox.kept import Kept, Pool
from metier.testing.sandbox_kit.backend import Backend, Opened


class ShowsMore(Faulty):
    """Every run can read a folder of the machine that nobody granted."""

    async def run(self, job: Job) -> Report:
        return await super().run(replace(job, places=(*job.places, Place(path="/var/lib"))))


class OwnFilesWritable(Faulty):
    """A skill may write in its own folder and in its packages."""

    async def run(self, job: Job) -> Report:
        own = [Place(path=path, writable=True) for path in (job.bundle, *job.packages) if path]
        return await super().run(replace(job, places=(*job.places, *own)))


class _Otherwise(Faulty):
    """Something of ours is done in another way, until it is closed."""

    def __init__(self, opened: Opened) -> None:
        super().__init__(opened)
        self._changes = ExitStack()

    async def aclose(self) -> None:
        await super().aclose()
        self._changes.close()


class HomeOfTheHost(_Otherwise):
    """Tells a run where the host's home is."""

    def __init__(self, opened: Opened) -> None:
        super().__init__(opened)
        told = kept.surroundings

        def more(temporary: str) -> dict[str, str]:
            return {**told(temporary), "HOME": os.environ["HOME"]}

        self._changes.enter_context(changed(kept, "surroundings", more))


class HomeElsewhere(_Otherwise):
    """Tells a run of a home that is not the one folder that is emptied after it."""

    def __init__(self, opened: Opened) -> None:
        super().__init__(opened)
        told = kept.surroundings
        self._changes.enter_context(
            changed(kept, "surroundings", lambda where: {**told(where), "HOME": "/nonexistent"})
        )


class UsedAgain(_Otherwise):
    """Whatever served a run serves the next, however that ended."""

    def __init__(self, opened: Opened) -> None:
        super().__init__(opened)
        give_back = Pool.give_back

        async def forgiving(self: Pool, served: Kept) -> Any:
            served.supervisor.usable = True
            await give_back(self, served)

        self._changes.enter_context(changed(Pool, "give_back", forgiving))


class KeepsGroups(_Otherwise):
    """Root becomes another user to start a run, and stays in its own groups."""

    def __init__(self, opened: Opened) -> None:
        super().__init__(opened)
        real, give_up = lend._call, (lend._SETGROUPS, 0, 0)

        def forgetful(*asked: Any) -> int:
            return 0 if asked == give_up else real(*asked)

        self._changes.enter_context(changed(lend, "_call", forgetful))


def keeps_groups() -> Backend:
    """With the fault in the other host as well: only that one is in groups."""
    faulty = with_fault(KeepsGroups, bubblewrap_straight)()
    return replace(faulty, elsewhere=f"{os.path.realpath(__file__)}:keeps_groups")
