"""Whoever signs in in a browser comes to what he wanted to see, and is told why when he does not."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio
import pytest
from playwright.sync_api import Page

from console_kit import Console, ask
from identity_provider import CLIENT, IdentityProvider, provider

Opens = Callable[..., Console]


@contextmanager
def elsewhere() -> Iterator[IdentityProvider]:
    """A provider in a thread of its own, while the browser has this one."""
    there: list[IdentityProvider] = []
    ready, over = threading.Event(), threading.Event()

    async def main() -> None:
        async with provider() as made:
            there.append(made)
            ready.set()
            await anyio.to_thread.run_sync(over.wait, 60)

    thread = threading.Thread(target=anyio.run, args=(main,), daemon=True)
    thread.start()
    assert ready.wait(20)
    try:
        yield there[0]
    finally:
        over.set()
        thread.join(20)


@pytest.mark.slow
def test_the_request_of_a_link_is_still_shown_after_the_way_over_a_provider(console: Opens) -> None:
    with elsewhere() as there:

        def configured(home: Path) -> None:
            said = f'[serve.oidc]\nissuer = "{there.issuer}"\nclient_id = "{CLIENT}"\n'
            (home / ".metier" / "metier.toml").write_text(said, encoding="utf-8")

        at = console(prepare=configured)
        at.metier("principals", "add", "human:vera", "--role", "viewer")
        at.metier("principals", "oidc", "human:vera", "--subject", there.subject)
        approval = ask(at)
        page = at.tab(signed_in=False)
        page.goto(f"{at.url}/approvals/{approval}")
        page.click("text=Sign in at your provider")
        page.wait_for_selector("#live")
        page.wait_for_url(f"{at.url}/approvals/{approval}", timeout=10_000)  # and not only to the first page
        page.wait_for_selector(f"[data-request={approval}]")
        assert "human:vera" in page.inner_text("header")
        away = [each for each in at.wrong if there.issuer in each]
        assert len(away) == 1 and at.wrong == away  # the way there is the only request that left


def refused(page: Page, status: int, words: str) -> str:
    """What the sign-in page says when it is answered so."""
    page.route(
        "**/api/v1/sign-in/password",
        lambda route: route.fulfill(
            status=status,
            content_type="application/problem+json",
            body=f'{{"status": {status}, "detail": "{words}", "remedy": "Try again in a minute"}}',
        ),
    )
    page.fill("input[name=id]", "vera")
    page.fill("input[name=password]", "correct horse battery")
    page.keyboard.press("Enter")
    page.wait_for_function("() => !document.getElementById('who').textContent.includes('Nobody is')")
    page.unroute("**/api/v1/sign-in/password")
    return page.inner_text("#who")


@pytest.mark.slow
def test_a_server_that_has_too_much_to_do_is_not_called_a_wrong_password_and_a_wrong_one_is(
    console: Opens,
) -> None:
    at = console()
    at.metier("principals", "add", "human:vera", "--role", "viewer")
    at.password("human:vera", "correct horse battery")
    page = at.tab(signed_in=False)
    for status, words in ((429, "too many attempts"), (503, "too much to do")):
        page.goto(f"{at.url}/record")
        page.wait_for_selector("#sign-in:not([hidden])")
        assert page.is_hidden("#provider")  # there is none
        said = refused(page, status, words)
        assert words in said and "Try again in a minute" in said and "wrong" not in said, said
    page.fill("input[name=id]", "vera")
    page.fill("input[name=password]", "not that one")
    page.keyboard.press("Enter")
    page.wait_for_function("() => document.getElementById('who').textContent.includes('is wrong')")
    page.fill("input[name=id]", "vera")  # without the kind: a person
    page.fill("input[name=password]", "correct horse battery")
    page.keyboard.press("Enter")
    page.wait_for_selector("#live")
    assert page.url == f"{at.url}/record" and "human:vera" in page.inner_text("header")
    assert at.wrong == []
