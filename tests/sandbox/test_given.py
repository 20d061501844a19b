"""Who named an address: every way in which a caller can spell a closed one, and what he did not name."""

import base64
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from jobs import python
from metier.sandbox.given import MOST_CHARACTERS, MOST_HEARD, Given, given_to
from metier.sandbox.url import Url, read_url


def named(given: Any, host: str, address: str | None = None) -> bool:
    closed = host if address is None and (":" in host or host[0].isdigit()) else address or ""
    return anyio.run(Given(given).named, host, closed)


@pytest.mark.parametrize(
    "said",
    [
        "http://127.0.0.1/",
        "http://127.0.0.1:8080/x?y#z",
        "HTTP://USER@127.0.0.1",
        "127.0.0.1",
        "127.0.0.1.",
        "see (127.0.0.1), please",
        "hosts=127.0.0.1;10.0.0.1",
        "http://127.1/",
        "http://2130706433/",
        "http://0x7f.1/",
        "http://0X7F000001/",
        "http://0177.0.0.1/",
        "http://127.000.000.001/",
        "http://%31%32%37.0.0.1/",
        "http://%2531%2532%2537.0.0.1/",
        "http://①②⑦.⓪.0.1/",
        "http://１２７。０。０。１/",
        "http://127\u200b.0.0\u00ad.1/",
        "http://12\t7.0.\n0.1/",
        "http:\\\\127.0.0.1\\x",
        "http://[::ffff:127.0.0.1]/",
        "http://[0:0:0:0:0:ffff:7f00:1]/",
        r'{"url": "http:\/\/\u0031\u0032\u0037.0.0.1\/"}',
        "<a href='http://&#49;27.0.0.1&sol;'>",
        base64.b64encode(b"http://127.0.0.1/").decode(),
        base64.urlsafe_b64encode(b"https://127.0.0.1/??>").decode().rstrip("="),
        "127.0.0.1-127.0.0.9",
        "127.0.0.0/8",
        "localhost",
        2130706433,
        127.1,
        ["x", {"y": {"127.0.0.1": None}}],
        {"host": "127.0.0.1", "port": 8080},
    ],
)
def test_a_loopback_address_is_named_in_any_spelling(said: Any) -> None:
    assert named({"a": [said]}, "127.0.0.1")
    assert not named({"a": [said]}, "10.11.12.13"), "control: another address is not"
    assert not named({"a": [said]}, "metadata.google.internal")


@pytest.mark.parametrize(
    ("said", "tried"),
    [
        ("http://LocalHost:80/", "localhost"),
        ("http://localhost./", "localhost"),
        ("http://ⓛocalhost/", "localhost"),
        ("http://api.localhost/", "api.localhost"),
        ("http://METADATA.google.internal/", "metadata.google.internal"),
        ("http://[0:0:0:0:0:0:0:1]:80/", "::1"),
        ("[::1]", "::1"),
        ("::1", "::1"),
        ("at ::1.", "::1"),
        ("url:fe80::1", "fe80::1"),
        ("http://[fe80::1%25eth0]/", "fe80::1"),
        ("http://[FD00:0000::0001]/", "fd00::1"),
        ("http://10.1/", "10.0.0.1"),
        ("http://010.0.0.1/", "10.0.0.1"),
        ("http://169.254.43518/", "169.254.169.254"),
        ("127.0.0.1", "localhost"),
        ("localhost", "::1"),
        ("192.168.1.0/24", "192.168.1.77"),
        ("fd00:1::/32", "fd00:1::7"),
        ("http://0/", "0.0.0.0"),  # noqa: S104
    ],
)
def test_other_closed_places_are_named_in_any_spelling_too(said: str, tried: str) -> None:
    assert named(said, tried)
    assert not named("http://a.example/ and 8.8.8.8, 1:2, 12:30, ::", tried) or tried == "::"


@pytest.mark.parametrize(
    "said",
    [
        None,
        "",
        {},
        [],
        True,
        "http://a.example/",
        "127.0.0.2",
        "notlocalhost",
        "localhost.example",
        "1.127.0.0.1",
    ],
)
def test_what_was_not_said_was_not_named(said: Any) -> None:
    assert not named(said, "127.0.0.1")
    assert not named(said, "localhost")


@pytest.mark.parametrize("text", ["http://127.0.0.1/", "http://[::1]/", "http://[::ffff:1.2.3.4]/"])
def test_what_the_strict_reader_reads_is_found_as_it_reads_it(text: str) -> None:
    url = read_url(text)
    assert isinstance(url, Url)
    assert named(text, url.host, url.address)


def test_arguments_context_and_granted_variables_are_what_a_run_is_given() -> None:
    for more in (
        {"arguments": {"url": "http://localhost/"}},
        {"context": {"call": {"transcript": "open localhost"}}},
        {"environment": {"BASE_URL": "http://localhost:8080"}},
    ):
        assert anyio.run(given_to(python("", **more)).named, "localhost", "")
    assert not anyio.run(given_to(python("open('localhost')")).named, "localhost", "")


def test_more_than_anybody_can_read_may_name_anything() -> None:
    assert not named("x " * 1_000, "10.0.0.1")
    assert named("x" * (MOST_CHARACTERS + 1), "10.0.0.1")


@pytest.mark.parametrize("text", ["1.1 ", "1:1:", "%31", "a-", "&#49;", "10.0.0.0/8 ", "QUFB"])
def test_much_text_is_read_while_everybody_elses_calls_go_on(text: str) -> None:
    turns = 0

    async def main() -> None:
        given = Given([text * (1_000_000 // len(text))])
        async with anyio.create_task_group() as group:

            async def others() -> None:
                nonlocal turns
                while True:
                    await anyio.lowlevel.checkpoint()
                    turns += 1

            group.start_soon(others)
            assert not await given.named("192.168.7.7", "192.168.7.7")
            group.cancel_scope.cancel()

    anyio.run(main)
    assert turns > 3


def test_a_word_is_said_only_where_it_stands_alone() -> None:
    given = Given({"line": "sudo 'rm' -rf", "tools": ["a b", "cat"]})
    assert all(given.says(word) for word in ("rm", "cat", "a b", "a", "line"))
    assert not any(given.says(word) for word in ("r", "sudo rm", "at", "/bin/rm", ""))


def test_what_is_heard_later_counts_from_then_on_and_beyond_what_anybody_can_read_all_of_it() -> None:
    async def body() -> None:
        given = Given({"skill": "net"})
        assert not await given.named("127.0.0.1", "127.0.0.1")
        given.hear({"text": ["look at http://127.0.0.1:8080/"]})
        assert await given.named("127.0.0.1", "127.0.0.1")
        assert not await given.named("10.0.0.1", "10.0.0.1")
        given.hear("10.0.0.1 " + "x" * 30_000)  # read in a thread, while another asks
        found: list[bool] = []

        async def ask() -> None:
            found.append(await given.named("10.0.0.1", "10.0.0.1"))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask)
            tasks.start_soon(ask)
        assert found == [True, True]
        assert not await given.named("10.0.0.2", "10.0.0.2")
        given.hear("x" * MOST_HEARD)
        assert await given.named("10.0.0.2", "10.0.0.2")

    anyio.run(body)
