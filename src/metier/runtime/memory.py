"""`memory.search`: memories of the workspace, found by words and by meaning, for skills that were granted it.

Private ones are found only where the operator says so. The index is a throw-away thing in the cache; it is brought in step
before every search, for no longer than `_SECONDS`: what that leaves over is taken in by the next, and the answer says that it is
`incomplete`. What is wrong with the index is for the operator, and goes to the log.
"""

import logging
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, final

from anyio import CapacityLimiter, from_thread, to_thread
from msgspec import Struct

from metier.errors import MetierError
from metier.model.call import ApprovedCall
from metier.model.digest import Json
from metier.model.outcome import Completed, Failed
from metier.model.text import one_line
from metier.record.private import make_private_folder
from metier.runtime.state import Seen
from metier.sandbox.job_places import make_workspace

if TYPE_CHECKING:
    from metier.memory.index import Hit, MemoryIndex
    from metier.memory.refresh import Problem, Refreshed

FOLDER: Final = "memory"
_INSTALL: Final = "memories cannot be searched on this machine: numpy is not installed. The operator runs: pip install 'metier[memory]'"
_SECONDS: Final = 10.0
_MOST_SAID: Final = 50
_log: Final = logging.getLogger("metier.memory")


@final
class _Found(Struct, frozen=True):
    hits: "list[Hit]"
    incomplete: bool


@final
class Memory:
    """The memories of one workspace, for one runtime."""

    def __init__(self) -> None:
        self._index: MemoryIndex | None = None
        self._folder = ""
        self._one = CapacityLimiter(1)
        """One search after the other, and never all threads of a program."""
        self._said: frozenset[Problem] = frozenset()
        """What the log was told last."""

    async def search(self, approved: ApprovedCall, seen: Seen) -> Completed | Failed:
        """The operation."""
        return await to_thread.run_sync(self._search, approved, seen, limiter=self._one)

    def close(self) -> None:
        """Let go of the index."""
        index, self._index = self._index, None
        if index is not None:
            index.close()

    def _search(self, approved: ApprovedCall, seen: Seen) -> Completed | Failed:
        valid = approved.authorized.valid
        try:
            found = self._found(valid.arguments, seen)
        except MetierError as error:
            _log.warning("memories cannot be searched: %s", error)
            message = "memories cannot be searched now; the log of Metier says why"
            return Failed(call_id=valid.call.id, code="internal", message=message)
        if isinstance(found, str):
            return Failed(call_id=valid.call.id, code="not_started", message=found)
        results: list[Json] = [_shown(each) for each in found.hits]
        value: dict[str, Json] = {"results": results, "count": len(results)}
        return Completed(
            call_id=valid.call.id, value={**value, "incomplete": True} if found.incomplete else value
        )

    def _found(self, arguments: dict[str, Json], seen: Seen) -> _Found | str:
        """What fits, or why nothing can be found. Blocking."""
        from metier.memory.table import missing  # most installations search nothing

        if missing():
            return _INSTALL
        from metier.memory.index import LIMIT, MIN_SIMILARITY

        make_workspace(seen.ground.workspace)
        folder = os.path.join(os.path.realpath(seen.ground.workspace), FOLDER)
        if os.path.realpath(folder) != folder:
            return (
                f"the folder {FOLDER!r} of the workspace is a link, and memories are not looked for elsewhere"
            )
        index = self._opened(folder, os.path.join(seen.settings.cache, FOLDER))
        enough = _until(time.monotonic() + _SECONDS)
        refreshed = index.refresh(enough=enough)
        self._tell(refreshed)
        query, limit, least = str(arguments["query"]), arguments.get("limit"), arguments.get("minSimilarity")
        hits = index.search(
            query,
            limit=limit if isinstance(limit, int) else LIMIT,
            min_similarity=least if isinstance(least, int | float) else MIN_SIMILARITY,
            include_private=seen.settings.memory.private,
            enough=enough,
        )
        return _Found(hits, refreshed.cut)

    def _tell(self, refreshed: "Refreshed") -> None:
        """Say in the log what is not searched, once as long as nothing changes."""
        now = frozenset(refreshed.problems)
        new = [each for each in refreshed.problems if each not in self._said]
        for each in new[:_MOST_SAID]:
            _log.info(
                "%s is not among the memories: %s",
                one_line(each.path, 200),
                one_line(each.diagnostic.message, 300),
            )
        if len(new) > _MOST_SAID:
            _log.info("%d more files are not among the memories", len(new) - _MOST_SAID)
        if refreshed.cut:
            _log.warning(
                "not all memories are in the index after %d s; the next search takes in more", _SECONDS
            )
        self._said = now | self._said if refreshed.cut else now

    def _opened(self, folder: str, cache: str) -> "MemoryIndex":
        from metier.memory.index import MemoryIndex

        if self._index is None or self._folder != folder:
            self.close()
            make_private_folder(cache)
            self._index = MemoryIndex(folder, os.path.join(os.path.realpath(cache), "index.db"))
            self._folder = folder
        return self._index


def _until(end: float) -> Callable[[], bool]:
    """Whether it is `end`. Where nobody waits for the answer any more it raises what ends the call."""

    def over() -> bool:
        from_thread.check_cancelled()
        return time.monotonic() >= end

    return over


def _shown(hit: "Hit") -> dict[str, Json]:
    shown: dict[str, Json] = {
        "path": f"{FOLDER}/{hit.path}",
        "id": hit.id,
        "title": hit.title,
        "snippet": hit.snippet,
        "similarity": round(hit.similarity, 4),
        "timestamp": hit.timestamp,
        "tags": list(hit.tags),
    }
    return {**shown, "private": True} if hit.private else shown
