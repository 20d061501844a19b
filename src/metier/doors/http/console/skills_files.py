"""The files of a skill, and one of them as text. What is no text, or too large, is named with its size and digest."""

from typing import Annotated, Final, final

from anyio import to_thread
from msgspec import Meta, Struct

from metier.catalog.bundle import Snapshot
from metier.catalog.listed import Listed
from metier.doors.http.console.asked import Unanswered, asked
from metier.doors.http.console.page import Page
from metier.doors.http.console.skills_bytes import digest_now, file_text, kept
from metier.doors.http.console.skills_review import Review
from metier.doors.http.console.skills_words import named
from metier.doors.http.endpoint import Asking
from metier.doors.http.problem import Refusal, not_found
from metier.model.role import READ_AUDIT
from metier.model.text import one_line

ON_A_PAGE: Final = 50


@final
class Which(Struct, frozen=True, kw_only=True):
    """Which file, of which bytes. A path stands in the question and not in the address: a file may be called anything."""

    path: Annotated[str, Meta(max_length=4_096)] = ""
    digest: Annotated[str, Meta(pattern="^(sha256:[0-9a-f]{64})?$")] = ""
    """Of the bytes that were looked at; those that lie there now, where it is left out."""
    page: Annotated[int, Meta(ge=1, le=1_000)] = 1


async def _files(asking: Asking) -> dict[str, object]:
    which: Which = asking.query
    engine, name = asking.serving.engine, asking.given["skill"]
    listed = named(engine.seen.catalog, name)
    if listed is None:
        raise not_found("no skill of that name was found here")
    snapshot = await _snapshot(asking, listed, which.digest)
    about: dict[str, object] = {"name": name, "which": which, "digest": snapshot.digest}
    if which.path:
        found = await to_thread.run_sync(file_text, snapshot, which.path)
        if found is None:
            raise not_found("the skill has no such file")
        return {**about, "file": found, "files": [], "many": len(snapshot.files), "pages": 0}
    begin = (which.page - 1) * ON_A_PAGE
    return {
        **about,
        "file": None,
        "files": snapshot.files[begin : begin + ON_A_PAGE],
        "many": len(snapshot.files),
        "pages": -(-len(snapshot.files) // ON_A_PAGE),
    }


async def _snapshot(asking: Asking, listed: Listed, wanted: str) -> Snapshot:
    """Its bytes as they are now: as calls use them, or as a review takes them.

    Raises:
        Refusal: where there are none, or they are not those that are wanted.
    """
    digest = await to_thread.run_sync(digest_now, asking, listed)
    found = await to_thread.run_sync(kept, asking, digest) if wanted in ("", digest) else None
    if found is not None:
        return found
    review = await asked(asking, "skills.review", {"name": listed.name}, Review)
    if isinstance(review, Unanswered):
        raise _no_bytes(review.why)
    if wanted and review.digest != wanted:
        raise Refusal(
            409,
            "changed",
            "its bytes are not those you looked at any more",
            remedy="Go back to the page of the skill: it shows what changed",
        )
    found = await to_thread.run_sync(kept, asking, review.digest)
    if found is None:
        raise _no_bytes(review.problem or "there are none")
    return found


def _no_bytes(why: str) -> Refusal:
    return Refusal(
        409,
        "no_bytes",
        f"its bytes cannot be looked at: {one_line(why, 500)}",
        remedy="Mend what lies in its folder, then look again",
    )


PAGES: Final = (
    Page(
        path="/skills/{skill}/files",
        template="skill_files.html",
        title="Files of a skill",
        shows=_files,
        menu="Skills",
        right=(READ_AUDIT,),
        query=Which,
        told=("skills",),
    ),
)
