"""Who does something stays signed in; an open page that nobody looks at does not."""

import time

import anyio
import pytest

from browser import Browser, browser, sign_in
from serve_kit import House, Premises


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    """The clock on the wall goes on."""
    began = time.time
    monkeypatch.setattr(time, "time", lambda: began() + seconds)


BY_ITSELF = {
    "a look of an open page": ("/approvals", {"hx-request": "true"}),
    "what stands around it": ("/around", {"sec-fetch-mode": "cors"}),
    "the stream": ("/api/v1/events", {"accept": "text/event-stream"}),
    "who am I": ("/api/v1/me", {"sec-fetch-mode": "same-origin"}),
}
BY_HAND = {
    "a page": ("GET", "/approvals", {"sec-fetch-mode": "navigate"}),
    "a page in an old browser": ("GET", "/approvals", {}),
    "an act": ("POST", "/api/v1/modules/principals/list", {"sec-fetch-mode": "cors"}),
}


async def minutes_with(
    house: House,
    it: Browser,
    monkeypatch: pytest.MonkeyPatch,
    method: str,
    path: str,
    headers: dict[str, str],
) -> int:
    """How it stands with him after twenty minutes of this, one every minute."""
    for _ in range(20):
        later(monkeypatch, 60)
        said = {**(it.page if method == "POST" else {"sec-fetch-site": "same-origin"}), **headers}
        body = {"json": {}} if method == "POST" else {}
        async with it.client.stream(method, path, headers=said, **body) as answer:
            assert answer.status_code in (200, 401), answer.status_code
    return (await it.get("/api/v1/me", **{"sec-fetch-mode": "cors"})).status_code


@pytest.mark.parametrize("what", BY_ITSELF)
def test_web_10_what_an_open_page_looks_up_by_itself_keeps_nobody_signed_in(
    premises: Premises, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """An agent that asks for something makes every open page look, so else it would keep an abandoned one signed in."""
    premises.configured("[serve]\nidle_minutes = 10")
    path, headers = BY_ITSELF[what]

    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            await sign_in(house, it)
            assert await minutes_with(house, it, monkeypatch, "GET", path, headers) == 401

    anyio.run(main)


@pytest.mark.parametrize("what", BY_HAND)
def test_who_goes_to_pages_or_does_something_stays_signed_in(
    premises: Premises, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    premises.configured("[serve]\nidle_minutes = 10")
    method, path, headers = BY_HAND[what]

    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            await sign_in(house, it)
            assert await minutes_with(house, it, monkeypatch, method, path, headers) == 200

    anyio.run(main)


@pytest.mark.parametrize(("idle", "pause"), [(1, 5), (1, 55), (2, 110), (0.1, 1)])
def test_who_does_something_again_in_time_is_not_signed_out_however_short_that_is(
    premises: Premises, monkeypatch: pytest.MonkeyPatch, idle: float, pause: float
) -> None:
    premises.configured(f"[serve]\nidle_minutes = {idle}")

    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            await sign_in(house, it)
            later(monkeypatch, 2)  # he does two things at first, one shortly after the other
            for turn in range(20):
                assert await it.me() == 200, turn
                later(monkeypatch, pause)
            later(monkeypatch, idle * 60)
            assert await it.me() == 401

    anyio.run(main)
