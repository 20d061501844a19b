"""An operator's day, from the link that `metier serve` prints to the record of what was done, in a real browser and with a real MCP client."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from console_kit import READ_MS, Console, noter, press, shot, told, until

Opens = Callable[..., Console]


class Caller(threading.Thread):
    """An agent behind MCP, with the official client. It waits for its answer as any client does."""

    def __init__(self, url: str, token: str, text: str) -> None:
        super().__init__(daemon=True)
        self.url, self.token, self.text = url, token, text
        self.answer: Any = None
        self.start()

    def run(self) -> None:
        self.answer = anyio.run(self._ask)

    async def _ask(self) -> Any:
        headers = {"authorization": f"Bearer {self.token}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60, trust_env=False) as http,
            Client(streamable_http_client(f"{self.url}/mcp", http_client=http)) as client,
        ):
            tools = (await client.list_tools()).tools
            [name] = [each.name for each in tools if each.name.endswith("note")]
            return await client.call_tool(name, {"text": self.text})

    def told(self) -> Any:
        self.join(30)
        assert self.answer is not None
        return self.answer


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize(("width", "scheme"), [(1440, "light"), (390, "dark")])
def test_an_operators_day_in_a_browser(console: Opens, width: int, scheme: str) -> None:
    at = console(prepare=noter)

    def kept(name: str) -> None:
        """In the colours that he works in, and in the others."""
        for each in ("dark", "light") if scheme == "light" else ("light", "dark"):
            page.emulate_media(color_scheme=each)
            shot(page, f"day-{name}-{width}-{each}")

    page = at.tab(width=width, scheme=scheme)  # signs in by the link
    assert "#token" not in page.url
    kept("1-first-look")

    # Trusts a skill, having read what it may do.
    page.click("nav >> text=Skills")
    page.click("main >> text=noter")
    page.wait_for_selector("#trust-title")
    assert "waits" in page.inner_text("main") or "Nobody gave his word" in page.inner_text("main")
    kept("2-before-trust")
    press(page, "text=Trust exactly these bytes")
    page.wait_for_selector("text=Trusted. Exactly these bytes")
    kept("3-trusted")

    # Switches it off and on again, and fills in its settings.
    page.click("text=Switch it off at once")
    page.wait_for_selector("text=Switch it on again")
    press(page, "text=Switch it on again")
    page.wait_for_selector("text=Switch it off at once")
    page.click("text=Settings")
    page.fill("label:has-text('Prefix') >> xpath=following-sibling::input", "memo")
    page.fill("label:has-text('Key') >> xpath=following-sibling::input", "s3cret-of-the-day")
    press(page, "text=Keep what I changed")
    page.wait_for_selector("text=Kept.")
    assert "s3cret-of-the-day" not in page.content()
    kept("4-settings")
    assert "memo" in at.metier("settings", "get", "noter")

    # Registers an agent and makes it a token.
    page.click("nav >> text=People")
    page.fill("form[data-post$='principals/add'] input[name=id]", "agent:helper")
    page.check("form[data-post$='principals/add'] input[value=agent]")
    press(page, "form[data-post$='principals/add'] button")
    told(page, "Registered")
    page.fill("form[data-post='/api/v1/tokens'] input[name=principal]", "agent:helper")
    page.fill("form[data-post='/api/v1/tokens'] input[name=name]", "the helper")
    press(page, "text=Make it")
    page.wait_for_selector("#made:not([hidden])")
    [token] = [each for each in page.inner_text("#made").split() if each.startswith("metier_")]

    # A call comes in from an MCP client while he looks; he reads the exact act and approves it by a key.
    page.click("nav >> text=Now")
    page.wait_for_function("() => document.getElementById('line').textContent === 'Live'")
    first = Caller(at.url, token, "tea at four")
    card = page.wait_for_selector("[data-request]", timeout=30_000)
    assert card is not None
    text = card.inner_text()
    assert "agent:helper" in text and '"tea at four"' in text and "noter" in text
    kept("5-asked")
    page.wait_for_function("() => document.activeElement.dataset.request")
    page.wait_for_timeout(READ_MS)
    page.keyboard.press("a")
    told(page, "Approved")
    answer = first.told()
    assert not answer.is_error and "TEA AT FOUR" in str(answer.content)

    # Sees what came of it, and its record; verifies that nothing of it was changed.
    page.wait_for_selector(".happened >> text=agent:helper ran noter/note")
    kept("6-ran")
    page.click(".happened >> text=agent:helper ran noter/note")
    page.wait_for_selector(".story")
    story = page.inner_text(".story")
    assert "asked for" in story and "approved" in story and '"TEA AT FOUR"' in story
    kept("7-story")
    page.click("nav >> text=Record")
    press(page, "text=Verify the record")
    page.wait_for_selector("#verified:not([hidden])", timeout=30_000)
    said = page.inner_text("#verified")
    assert "ok" in said and "yes" in said and "head" in said
    with page.expect_download() as download:
        press(page, "text=Sign and download a checkpoint")
    assert "metier" in Path(download.value.path()).read_text(encoding="utf-8")
    kept("8-verified")

    # Denies the next, with a word.
    page.click("nav >> text=Approvals")
    second = Caller(at.url, token, "tea at five")
    page.wait_for_selector("[data-request]", timeout=30_000)
    page.wait_for_function("() => document.activeElement.dataset.request")
    page.keyboard.press("w")
    page.keyboard.type("one is enough")
    page.wait_for_timeout(READ_MS)
    page.keyboard.press("Enter")
    told(page, "Denied")
    assert "one is enough" in str(second.told().content)
    kept("9-denied")

    # Stops everything; what is asked then is refused. And lets things run again.
    page.click("nav >> text=Now")
    page.fill("#why", "lunch")
    page.click("text=Stop everything")
    page.wait_for_selector("text=Everything is stopped")
    kept("10-stopped")
    refused = Caller(at.url, token, "tea at six").told()
    assert refused.is_error and "lunch" in str(refused.content)
    press(page, "text=Let things run again")
    page.wait_for_selector("text=Everything is stopped", state="detached")
    until(lambda: "stopped" not in at.metier("doctor").splitlines()[0])
    kept("11-goes-on")
    assert at.wrong == []


@pytest.mark.slow
def test_a_skill_is_tried_on_its_page_and_what_comes_of_it_is_seen_as_it_is(console: Opens) -> None:
    at = console(prepare=noter)
    at.metier("skills", "trust", "noter", "--yes")
    page = at.tab()
    page.goto(at.url + "/skills/noter/try")
    page.fill(
        "form[data-post='/api/v1/calls'] :is(input:not([type=hidden], [type=checkbox]), textarea)",
        "tea\u202e",
    )
    press(page, "text=Call it")
    page.wait_for_selector("#came:not([hidden])")
    assert "TEA\\u{202e}" in page.inner_text("#came") and "\u202e" not in page.inner_text("main")
    assert page.get_attribute("#told a", "href", strict=True)
    page.check("form[data-post='/api/v1/calls'] [name=as_agent]")
    press(page, "text=Call it")
    told(page, "It waits for somebody's word")
    page.click("#told a")
    page.wait_for_selector("[data-request][data-state=pending]")
    assert at.wrong == []
