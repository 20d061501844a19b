"""Every page of the console, and how one is answered."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute

from metier.doors.http.console import (
    approvals,
    around,
    channels,
    now,
    people,
    policy,
    record,
    schedules,
    skills_pages,
    story,
    usage,
)
from metier.doors.http.console.looks import rendered
from metier.doors.http.console.page import Page
from metier.doors.http.console.static import static_routes
from metier.doors.http.endpoint import Asking, check_path, led_here, read_query
from metier.doors.http.problem import Refusal, not_found, of_error
from metier.doors.http.room import let_in
from metier.doors.http.routing import Answering, only
from metier.doors.http.serving import Serving
from metier.errors import MetierError
from metier.model.text import one_line
from metier.record.newest import newest
from metier.record.pending import pending_in

PAGES: Final[tuple[Page, ...]] = (
    *around.PAGES,
    *(*now.PAGES, *approvals.PAGES, *skills_pages.PAGES, *record.PAGES, *story.PAGES, *policy.PAGES),
    *(*usage.PAGES, *people.PAGES, *channels.PAGES, *schedules.PAGES),
)
MENU: Final = (
    ("Now", "/"),
    ("Approvals", "/approvals"),
    ("Skills", "/skills"),
    ("Record", "/record"),
    ("Policy", "/policy"),
    ("Usage", "/usage"),
    ("People", "/people"),
    ("Channels", "/channels"),
    ("Schedules", "/schedules"),
)


_FIELD: Final = re.compile(r"at `\$\.([a-z_]+)`$")
"""Which part of a query was not as it should be."""
_RIGHTS: Final = {page.path: frozenset(page.right) for page in PAGES}


def console_routes(serving: Serving) -> Sequence[BaseRoute]:
    """All of it."""
    return [*(only(page.path, _answering(serving, page)) for page in PAGES), *static_routes()]


def no_such_page(serving: Serving) -> Answering:
    """What a person sees at an address where nothing is."""

    async def nothing(_asking: Asking) -> dict[str, object]:
        raise not_found("there is no page at this address", "The menu has all that there are")

    return _answering(serving, Page(path="", template="refused.html", title="", shows=nothing, menu=""))


def _answering(serving: Serving, page: Page) -> Answering:
    async def answered(request: Request) -> Response:
        about: dict[str, object] = {"page": page, "menu": MENU, "address": _address(request), "me": ""}
        try:
            identity = await serving.gatekeeper.person(request.headers)
            if identity is None:
                about["there"] = page.path if page.asks and led_here(request) else ""
                return await to_thread.run_sync(rendered, "sign_in.html", about, 401)
            let_in(request.scope, identity.principal)
            asking = Asking(serving, request, identity)
            about |= await _around(asking)
            await asking.require(*page.right)
            check_path(request)
            asking.query = _wanted(request, page)
            shown = {**about, **await page.shows(asking)}
        except Refusal as refusal:
            return _refused(refusal, about)
        except MetierError as error:
            serving.log.warning("%s: %s", request.url.path[:200], one_line(str(error), 500))
            return _refused(of_error(error), about)
        return await to_thread.run_sync(rendered, page.template, shown)

    return answered


def _wanted(request: Request, page: Page) -> object:
    """What the address asks for.

    Raises:
        Refusal: when nobody can read it, in words for people: the API says it in words for programs.
    """
    try:
        return read_query(request, page.query)
    except Refusal as refusal:
        if (field := _FIELD.search(refusal.problem.detail)) is None:
            raise
        raise Refusal(
            400,
            "bad_request",
            f"what stands for {field[1]!r} in the address cannot be read",
            remedy=f"Go back and write it otherwise, or open {page.path} without what follows the question mark",
        ) from None


async def _around(asking: Asking) -> dict[str, object]:
    """What stands on every page: who looks, what he may do, how much waits, and why nothing runs where nothing does."""
    serving = asking.serving
    steering = await serving.gatekeeper.steering()
    database = serving.engine.state.database

    def looked() -> tuple[int, int, str]:
        seq = newest(database)  # first: what comes while the page is made is told to it afterwards
        with database.reading() as connection:
            waiting = pending_in(connection)
        return seq, waiting, serving.engine.state.trouble(serving.engine.seen).why

    seq, waiting, trouble = await to_thread.run_sync(looked)
    rights = await asking.rights()
    return {
        "me": asking.identity.principal.id,
        "menu": [(name, path) for name, path in MENU if _RIGHTS[path] & rights],
        "rights": rights,
        "seq": seq,
        "stopped": steering.stopped,
        "trouble": trouble,
        "waiting": waiting,
    }


def _refused(refusal: Refusal, about: Mapping[str, object]) -> Response:
    return rendered(
        "refused.html",
        {
            "rights": frozenset[str](),
            "stopped": "",
            "trouble": "",
            "seq": 0,
            "waiting": 0,
            **about,
            "problem": refusal.problem,
        },
        refusal.problem.status,
    )


def _address(request: Request) -> str:
    """This page with its question, to look at it again."""
    query = request.url.query
    return f"{request.url.path}?{query}" if query else request.url.path
