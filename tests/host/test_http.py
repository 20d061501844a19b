"""`http`: what running code sees of the way out, and that it never holds a secret."""

import base64
from collections.abc import Callable, Iterator
from typing import Any

import anyio
import pytest

from loopback import Authority, Listener, World, make_authority, reply
from metier.host.http import Http
from metier.model.digest import Json
from metier.model.permission import PermissionSet
from metier.model.ports import Answered, NotAnswered
from metier.sandbox.egress import Egress
from metier.sandbox.secret import MASK

SECRET = "s3cr3t/+value-9f27"


@pytest.fixture
def home(world: World) -> Iterator[Callable[..., Listener]]:
    started: list[Listener] = []

    def start(answer: Any = None, **more: Any) -> Listener:
        given = answer if callable(answer) else lambda _asked: answer or reply()
        started.append(Listener(given, **more))
        world.put("a.example", started[-1])
        return started[-1]

    yield start
    for listener in started:
        listener.close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return make_authority(tmp_path_factory.mktemp("authority"))


def ask(
    world: World,
    *requests: dict[str, Any],
    hosts: tuple[str, ...] = ("http://a.example",),
    roots: str = "",
    given: Json = None,
    secrets: frozenset[str] = frozenset(),
) -> list[Answered | NotAnswered]:
    def make(**given: Any) -> Egress:
        return Egress(**given, resolver=world.resolve, connect=world.connect, extra_roots=roots)

    async def main() -> list[Answered | NotAnswered]:
        service = Http(frozenset(hosts), {"token": SECRET}.get, make, given=given, secrets=secrets)
        try:
            return [await service.answer(each) for each in requests]
        finally:
            await service.aclose()

    return anyio.run(main)


def test_an_answer_has_status_headers_and_text(world: World, home: Callable[..., Listener]) -> None:
    listener = home(reply("404 Not Found", "nichts für ungut".encode(), X_Note="1"))
    request = {
        "method": "post",
        "url": "http://a.example/x",
        "headers": {"X-A": "b"},
        "body": "ü",
        "timeout_ms": 5_000,
    }
    (answer,) = ask(world, request)
    assert isinstance(answer, Answered)
    assert isinstance(answer.value, dict)
    assert {name: answer.value[name] for name in ("status", "body", "encoding", "truncated")} == {
        "status": 404,
        "body": "nichts für ungut",
        "encoding": "text",
        "truncated": False,
    }
    assert answer.value["headers"]["x-note"] == "1"
    assert (listener.asked[0].line, listener.asked[0].body) == ("POST /x HTTP/1.1", "ü".encode())


def test_bytes_go_both_ways_as_base64(world: World, home: Callable[..., Listener]) -> None:
    listener = home(reply(body=b"\xff\x00\xfe"))
    body = {"base64": base64.b64encode(b"\x00\xff").decode()}
    (answer,) = ask(world, {"method": "PUT", "url": "http://a.example/", "body": body})
    assert isinstance(answer, Answered)
    assert isinstance(answer.value, dict)
    assert (answer.value["encoding"], answer.value["body"]) == (
        "base64",
        base64.b64encode(b"\xff\x00\xfe").decode(),
    )
    assert listener.asked[0].body == b"\x00\xff"


def test_an_answer_fits_into_one_message(world: World, home: Callable[..., Listener]) -> None:
    home(reply(body="ü".encode() * 2_000_000))
    (answer,) = ask(world, {"url": "http://a.example/"})
    assert isinstance(answer, Answered)
    assert isinstance(answer.value, dict)
    assert answer.value["truncated"] is True
    assert 0 < len(str(answer.value["body"]).encode()) < 1_000_000
    assert set(answer.value["body"]) == {"ü"}


def test_the_requests_of_one_call_share_one_lookup_and_one_connection(
    world: World, home: Callable[..., Listener]
) -> None:
    listener = home()
    said = ask(world, *[{"url": "http://a.example/"}] * 3)
    assert all(isinstance(each, Answered) for each in said)
    assert (world.lookups, listener.connections) == (["a.example"], 1)


def test_a_secret_is_put_in_on_the_way_out_and_does_not_come_back(
    world: World, home: Callable[..., Listener], authority: Authority
) -> None:
    listener = home(
        lambda asked: reply(body=asked.headers["authorization"].encode()), tls=authority.server("a.example")
    )
    headers = {"Authorization": {"secret": "token", "before": "Bearer "}}
    request = {"url": "https://a.example/", "headers": headers}
    (answer,) = ask(world, request, hosts=("a.example",), roots=authority.roots)
    assert listener.asked[0].headers["authorization"] == f"Bearer {SECRET}"
    assert isinstance(answer, Answered)
    assert isinstance(answer.value, dict)
    assert answer.value["body"] == f"Bearer {MASK}"


def test_a_secret_that_is_not_granted_is_not_sent(world: World, home: Callable[..., Listener]) -> None:
    listener = home()
    request = {"url": "https://a.example/", "headers": {"Authorization": {"secret": "other"}}}
    (answer,) = ask(world, request, hosts=("a.example",))
    assert isinstance(answer, NotAnswered)
    assert answer.name == "SecretUnavailable"
    assert listener.connections == 0


@pytest.mark.parametrize("hosts", [(), ("b.example",)])
def test_a_public_host_that_is_not_granted_is_denied_and_no_violation(
    world: World, home: Callable[..., Listener], hosts: tuple[str, ...]
) -> None:
    listener = home()
    (answer,) = ask(world, {"url": "http://a.example/"}, hosts=hosts)
    assert isinstance(answer, NotAnswered)
    assert (answer.name, answer.kind) == ("PermissionDenied", "denied")
    assert listener.connections == 0
    assert Http(frozenset(), {}.get).allowed(PermissionSet())


@pytest.mark.parametrize(
    "url", ["http://169.254.169.254/latest", "http://127.0.0.1:8080/", "http://2130706433/"]
)
def test_a_private_address_that_the_code_names_is_a_violation(world: World, url: str) -> None:
    (answer,) = ask(world, {"url": url})
    assert isinstance(answer, NotAnswered)
    assert answer.kind == "violation"
    assert world.dialled == []


def test_a_private_address_somebody_else_names_is_only_denied(
    world: World, home: Callable[..., Listener]
) -> None:
    home(reply("302 Found", b"", Location="http://10.0.0.1/"))
    world.names["trap.example"] = [["10.0.0.1"]]
    said = ask(
        world,
        {"url": "http://a.example/"},
        {"url": "http://trap.example/"},
        hosts=("http://a.example", "http://trap.example"),
    )
    assert [each.kind for each in said if isinstance(each, NotAnswered)] == ["denied", "denied"]


def test_a_private_address_may_come_from_a_page_once_one_was_read(
    world: World, home: Callable[..., Listener]
) -> None:
    home(reply(body=b"see http://169.254.169.254/"))
    private = {"url": "http://169.254.169.254/"}
    assert [getattr(each, "kind", "") for each in ask(world, private)] == ["violation"], "control"
    said = ask(world, {"url": "http://a.example/"}, private)
    assert [getattr(each, "kind", "answered") for each in said] == ["answered", "denied"]
    assert "169.254" not in str(world.dialled)


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ({"link": "http://127.0.0.1:8080/admin"}, "denied"),
        ({"places": [{"127.0.0.1": True}]}, "denied"),
        ({"link": "http://a.example/"}, "violation"),
        ({}, "violation"),
    ],
)
def test_a_private_address_that_the_caller_named_is_not_the_skills_doing(
    world: World, given: Json, kind: str
) -> None:
    (answer,) = ask(world, {"url": "http://127.0.0.1:8080/admin"}, given=given)
    assert isinstance(answer, NotAnswered)
    assert (answer.name, answer.kind) == ("PermissionDenied", kind)
    assert world.dialled == []


@pytest.mark.parametrize(
    ("said", "asked"),
    [
        ("http://127.1/", "http://127.0.0.1/"),
        ("http://LOCALHOST/", "http://localhost/"),
        ("http://[0:0:0:0:0:0:0:1]/", "http://[::1]/"),
        ("http://169.254.43518/", "http://169.254.169.254/"),
    ],
)
def test_a_private_address_is_the_callers_however_it_was_spelled(world: World, said: str, asked: str) -> None:
    """Whoever reads a URL before asking for it, as `new URL(…).href` does, asks for another text."""
    kinds = [
        [getattr(each, "kind", "") for each in ask(world, {"url": asked}, given=given)]
        for given in ({"url": said}, {"url": "http://10.0.0.1/"})
    ]
    assert kinds == [["denied"], ["violation"]]
    assert world.dialled == []


def test_a_granted_secret_is_masked_before_it_was_ever_sent(
    world: World, home: Callable[..., Listener], authority: Authority
) -> None:
    home(reply(body=f"last: Bearer {SECRET}".encode()), tls=authority.server("a.example"))
    more = {"hosts": ("a.example",), "roots": authority.roots}
    request = {"url": "https://a.example/log"}
    bodies = [
        each.value["body"]
        for granted in (frozenset({"token"}), frozenset[str]())
        for each in ask(world, request, secrets=granted, **more)
        if isinstance(each, Answered) and isinstance(each.value, dict)
    ]
    assert bodies == [f"last: Bearer {MASK}", f"last: Bearer {SECRET}"]


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"url": 5},
        {"url": "http://a.example/", "method": 1},
        {"url": "http://a.example/", "headers": ["a"]},
        {"url": "http://a.example/", "headers": {"a": 1}},
        {"url": "http://a.example/", "headers": {"a": {"secret": 1}}},
        {"url": "http://a.example/", "headers": {"a": {"secret": "token", "after": "x"}}},
        {"url": "http://a.example/", "headers": {"a": {"secret": "token", "before": 1}}},
        {"url": "http://a.example/", "headers": {"a": "b\r\nc: d"}},
        {"url": "http://a.example/", "headers": {"host": "b.example"}},
        {"url": "http://a.example/", "body": {"a": 1}},
        {"url": "http://a.example/", "body": {"base64": "***"}},
        {"url": "http://a.example/", "timeout_ms": 0},
        {"url": "http://a.example/", "timeout_ms": True},
        {"url": "http://a.example/", "verify": False},
        {"url": "http://a.example/", "follow": "no"},
        {"url": "http://a.example/", "method": "CONNECT"},
        {"url": "file:///etc/passwd"},
    ],
)
def test_what_is_no_request_is_refused_and_nothing_is_sent(world: World, params: dict[str, Any]) -> None:
    (answer,) = ask(world, params)
    assert isinstance(answer, NotAnswered)
    assert (answer.name, answer.kind) == ("InvalidRequest", "failed")
    assert world.dialled == []


def test_a_request_ends_with_its_own_time(world: World, home: Callable[..., Listener]) -> None:
    def slowly(_asked: Any) -> Iterator[bytes]:
        yield b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n"
        for _ in range(100):
            import time

            time.sleep(0.02)
            yield b"x"

    home(slowly)
    (answer,) = ask(world, {"url": "http://a.example/", "timeout_ms": 200})
    assert isinstance(answer, NotAnswered)
    assert answer.name == "TimedOut"


def test_what_may_pass_is_tried_again_where_that_can_do_no_harm(
    world: World, home: Callable[..., Listener]
) -> None:
    for method, status, asked in (("GET", 200, 2), ("POST", 503, 1)):
        answers = [reply("503 Busy"), reply(body=b"there")]
        listener = home(lambda _asked, answers=answers: answers.pop(0))
        (answer,) = ask(world, {"method": method, "url": "http://a.example/"})
        assert isinstance(answer, Answered)
        assert isinstance(answer.value, dict)
        assert (answer.value["status"], len(listener.asked)) == (status, asked), method
