"""The notes of what was asked say enough to be followed up, and nothing that opens a door."""

from typing import Any

import anyio
import pytest

from metier.host.asked import Noting
from metier.model.digest import Json
from metier.model.outcome import Request
from metier.model.ports import Answered, NotAnswered

YES = Answered()
KEY = "•" * 8


class Says:
    """A host that gives one answer, or none at all."""

    def __init__(self, answer: Answered | NotAnswered | None = None) -> None:
        self._answer = answer

    async def ask(self, method: str, params: dict[str, Json]) -> Answered | NotAnswered:
        if self._answer is None:
            await anyio.sleep_forever()
        return self._answer or Answered()


def noted(method: str, params: dict[str, Any], answer: Answered | NotAnswered | None = YES) -> Request:
    noting = Noting(Says(answer))

    async def main() -> None:
        with anyio.move_on_after(0.01 if answer is None else 10):
            assert await noting.ask(method, params) is answer

    anyio.run(main)
    (only,) = noting.asked.requests
    return only


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://example.com/a/b?key=1#x", "https://example.com/a/b"),
        ("https://example.com?key=1", "https://example.com"),
        ("https://me:pass@example.com/a", "https://example.com/a"),
        ("https://me@evil\\@example.com/a", "https://evil/@example.com/a"),
        ("https://api.telegram.org/bot12345:AAbbccddeeffgghh/send", f"https://api.telegram.org/{KEY}/send"),
        (
            "https://hooks.example/services/T0/B0/abcdefghijklmnopqrstuvwX",
            f"https://hooks.example/services/T0/B0/{KEY}",
        ),
        ("https://example.com/\x1b[2J\n", "https://example.com/\\u{1b}[2J"),
        ("nonsense", "nonsense"),
        ("", ""),
    ],
)
def test_an_address_is_shown_without_what_may_be_secret_in_it(url: str, shown: str) -> None:
    assert noted("http", {"url": url, "method": "post"}).detail.strip() == f"POST {shown}".strip()


@pytest.mark.parametrize(
    ("params", "shown"),
    [
        ({"argv": ["git", "push", "--token=s3cret"]}, "git, 2 arguments"),
        ({"argv": ["git", 5]}, "git, 1 argument"),
        ({"argv": []}, ""),
        ({"argv": "git push"}, ""),
        ({}, ""),
    ],
)
def test_of_a_program_only_its_name_is_shown(params: dict[str, Any], shown: str) -> None:
    assert noted("exec", params).detail == shown


def test_what_was_logged_or_asked_besides_is_not_repeated() -> None:
    assert noted("log", {"level": "info", "message": "s3cret"}).detail == "info"
    assert noted("call_log.write", {"entry": "s3cret"}).detail == ""
    assert noted("other", {"url": "s3cret", "argv": ["s3cret"]}).detail == ""


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Answered(), "answered"),
        (Answered(value={"status": 404, "body": "s3cret"}), "answered 404"),
        (NotAnswered(name="TimedOut", message="s3cret"), "TimedOut"),
        (NotAnswered(name="PermissionDenied", message="s3cret", kind="denied"), "PermissionDenied (denied)"),
        (None, "interrupted"),
    ],
)
def test_how_it_was_answered_is_said_in_a_word(answer: Answered | NotAnswered | None, said: str) -> None:
    assert noted("http", {"url": "https://example.com"}, answer).answer == said
