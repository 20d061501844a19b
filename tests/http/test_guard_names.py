"""Before the guard: under which names a server is reached, what is no request at all, and what may be said in a head."""

from collections.abc import Sequence
from typing import Any

import anyio
import pytest

from metier.doors.http.guard import Guard, Ours
from metier.doors.http.identity import PLAIN_COOKIE
from metier.doors.http.room import Room


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "localhost", "0.0.0.0", "::"])  # noqa: S104  a name, not a place
def test_web_01_a_server_of_this_machine_or_of_all_addresses_has_the_names_of_this_machine_only(
    address: str,
) -> None:
    ours = Ours.at(address, 8765)
    assert ours.hosts == {b"127.0.0.1:8765", b"localhost:8765", b"[::1]:8765"}
    assert ours.origins == {b"http://" + each for each in ours.hosts}


@pytest.mark.parametrize(
    ("address", "name"), [("192.0.2.5", b"192.0.2.5"), ("2001:db8::5", b"[2001:db8::5]")]
)
def test_web_01_an_address_of_its_own_is_a_name_too(address: str, name: bytes) -> None:
    ours = Ours.at(address, 8765)
    assert name + b":8765" in ours.hosts
    assert b"http://" + name + b":8765" in ours.origins
    assert name not in ours.hosts, "not without its port"


def test_web_01_without_a_port_only_where_that_is_the_one_which_is_left_out() -> None:
    assert {b"localhost", b"localhost:80"} <= Ours.at("127.0.0.1", 80).hosts
    assert b"localhost" not in Ours.at("127.0.0.1", 8080).hosts


def test_web_01_what_the_operator_names_is_an_origin_and_a_host_and_nothing_near_it_is() -> None:
    ours = Ours.at("127.0.0.1", 8765, ["https://Tea.example.com"])
    assert b"https://tea.example.com" in ours.origins
    assert b"tea.example.com" in ours.hosts
    assert b"http://tea.example.com" not in ours.origins
    assert b"tea.example.com:8765" not in ours.hosts


@pytest.mark.parametrize("kind", ["websocket", "lifespan", "other"])
def test_web_03_what_is_no_request_reaches_nothing_and_is_not_answered(kind: str) -> None:
    reached: list[Any] = []

    async def app(*given: Any) -> None:
        reached.append(given)

    async def receive() -> Any:
        return {"type": f"{kind}.connect"}

    async def send(message: Any) -> None:
        reached.append(message)

    guard = Guard(app, lambda: Ours.at("127.0.0.1", 1), Room())
    scope: Any = {
        "type": kind,
        "headers": [(b"host", b"127.0.0.1:1")],
        "raw_path": b"/",
        "method": "GET",
        "path": "/",
    }
    anyio.run(guard, scope, receive, send)
    assert reached == []
    scope["type"] = "http"
    anyio.run(guard, scope, receive, send)
    assert reached, "control"


def answered(
    path: bytes = b"/", *hosts: bytes, method: str = "GET", more: Sequence[tuple[bytes, bytes]] = ()
) -> int:
    """With what a request is answered that comes from a reader which lets everything through."""
    statuses: list[int] = []

    async def app(*given: Any) -> None:
        statuses.append(200)

    async def receive() -> Any:
        return {"type": "http.request"}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            statuses.append(message["status"])

    headers = [*((b"host", each) for each in hosts or (b"127.0.0.1:1",)), *more]
    scope: Any = {
        "type": "http",
        "headers": headers,
        "raw_path": path,
        "method": method,
        "path": path.decode("latin-1"),
    }
    anyio.run(Guard(app, lambda: Ours.at("127.0.0.1", 1), Room()), scope, receive, send)
    (status,) = statuses
    return status


ONLY_SIGNS = [
    b"/a;b",
    b"/a|b",
    b'/a"b',
    b"/a\\b",
    b"/a b",
    b"/<a>",
    b"/\xff",
    b"a",
    b"*",
    b"",
    b"/a?b",
    b"/a#b",
    b"/a\n",
]
ONLY_ODD = [
    b"//",
    b"/a//b",
    b"/a/../b",
    b"/..",
    b"/.",
    b"/a/./b",
    b"/%2e%2e/a",
    b"/a%2Fb",
    b"/a%5cb",
    b"/a%00",
    b"/%zz",
    b"/%",
]


@pytest.mark.parametrize("path", [*ONLY_SIGNS, *ONLY_ODD])
def test_web_02_a_path_that_another_reader_could_take_for_another_is_refused(path: bytes) -> None:
    assert answered(path) == 400


@pytest.mark.parametrize("path", [b"/", b"/api/v1/calls", b"/a%20b", b"/a.b/..c", b"/apr_1:x,y=(z)"])
def test_a_plain_path_goes_on(path: bytes) -> None:
    assert answered(path) == 200


def test_web_01_a_request_names_one_host_which_is_ours() -> None:
    assert answered(b"/", b"127.0.0.1:1") == 200
    assert answered(b"/", b"127.0.0.1:1", b"127.0.0.1:1") == 400
    assert answered(b"/", b"127.0.0.1:2") == 421


CALLS = b"/api/v1/calls"
ORIGIN, SAME, CROSS = (
    (b"origin", b"http://127.0.0.1:1"),
    (b"sec-fetch-site", b"same-origin"),
    (b"sec-fetch-site", b"cross-site"),
)
LED = [CROSS, (b"sec-fetch-mode", b"navigate"), (b"sec-fetch-dest", b"document")]
COOKIE = (b"cookie", PLAIN_COOKIE.encode() + b"=x")


@pytest.mark.parametrize("said", [[ORIGIN, ORIGIN], [SAME, SAME], [(b"origin", b"null")], [CROSS]], ids=str)
def test_web_03_a_page_says_once_that_it_is_ours(said: list[tuple[bytes, bytes]]) -> None:
    assert answered(CALLS, more=said) == 403
    assert answered(CALLS, more=said[:1]) == (200 if len(said) > 1 else 403)


@pytest.mark.parametrize(
    ("method", "path", "more"),
    [
        ("POST", b"/", LED),
        ("GET", CALLS, LED),
        ("GET", b"/", [*LED[:1], *LED[2:]]),
        ("GET", b"/", LED[:2]),
        ("GET", b"/", [*LED[:2], (b"sec-fetch-dest", b"iframe")]),
    ],
    ids=["sends something", "no page", "is not led", "says not where to", "into a frame"],
)
def test_web_03_a_link_of_another_site_leads_a_person_to_a_page_and_nowhere_else(
    method: str, path: bytes, more: list[tuple[bytes, bytes]]
) -> None:
    assert answered(path, method=method, more=more) == 403
    assert answered(b"/", more=LED) == 200


def test_web_03_a_cookie_counts_with_the_word_that_the_page_is_ours() -> None:
    assert answered(CALLS, more=[COOKIE]) == 403
    assert answered(CALLS, more=[COOKIE, (b"sec-fetch-site", b"none")]) == 403
    for word in (ORIGIN, SAME):
        assert answered(CALLS, more=[COOKIE, word]) == 200
    assert answered(CALLS, more=[COOKIE, (b"authorization", b"Bearer x")]) == 200
    assert answered(CALLS, more=[(b"cookie", b"other=x")]) == 200
