"""The console shows and does nothing by itself: whatever is done is asked of the API, and every value in a page is text."""

import hashlib
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import anyio
import pytest

import metier.doors.http.console as console
from browser import browser, sign_in
from metier.doors.http.app import ENDPOINTS
from metier.doors.http.console.routes import MENU, PAGES
from metier.doors.http.guard import _NO_PAGES
from serve_kit import Premises

HERE = Path(console.__file__).parent
TEMPLATES = sorted((HERE / "templates").glob("*.html"))
SCRIPTS = [each for each in sorted((HERE / "static").glob("*.js")) if not each.name.endswith(".min.js")]
VENDORED = {
    # htmx 4.0.0 of the npm package htmx.org, 0BSD
    "htmx.min.js": "e484d9171a9db30a39c8f16e3d709d4137f3211c659f8e6125816635033d593f",
    "hx-csp.min.js": "279f659b9ec8658e3d47230cc545b0bb4e3efa4c2d780454d54db104a5257b7d",
}
NAVIGATED = {"sec-fetch-site": "none", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    return Premises(tmp_path, monkeypatch)


def test_no_template_says_that_anything_is_safe_or_brings_script_or_style_of_its_own() -> None:
    for each in TEMPLATES:
        text = each.read_text(encoding="utf-8")
        for odd in (
            r"\|\s*safe",
            r"\bMarkup\b",
            r"autoescape",
            r"\son[a-z]+\s*=",
            r"\sstyle\s*=",
            r"<style",
            r"javascript:",
        ):
            assert not re.search(odd, text), (each.name, odd)
        for script in re.findall(r"<script[^>]*>", text):
            assert 'nonce="{{ nonce }}"' in script and "src=" in script, (each.name, script)


def test_no_script_of_ours_makes_markup_of_text() -> None:
    assert SCRIPTS
    for each in SCRIPTS:
        text = each.read_text(encoding="utf-8")
        for odd in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "setHTML",
            "DOMParser",
        ):
            assert odd not in text, (each.name, odd)


def test_what_comes_from_elsewhere_is_byte_for_byte_what_was_published() -> None:
    for name, digest in VENDORED.items():
        assert hashlib.sha256((HERE / "static" / name).read_bytes()).hexdigest() == digest, name


def _forms(text: str) -> Iterator[tuple[str, str]]:
    for form in re.findall(r"<form[^>]*data-post=\"[^\"]*\"[^>]*>", text):
        address = re.search(r'data-post="([^"]*)"', form)
        method = re.search(r'data-method="([^"]*)"', form)
        assert address is not None
        yield (method[1] if method else "POST"), re.sub(r"\{\{.*?\}\}", "X", address[1])


def test_every_form_is_sent_to_something_that_the_api_has() -> None:
    """So nothing is possible here that is not possible there."""
    known = [(each.method, re.compile(re.sub(r"\{[a-z_]+\}", "[^/]+", each.path))) for each in ENDPOINTS]
    sent = [(each.name, *form) for each in TEMPLATES for form in _forms(each.read_text(encoding="utf-8"))]
    assert len(sent) > 20
    for name, method, address in sent:
        assert any(method == has and path.fullmatch(address) for has, path in known), (name, method, address)


def test_every_page_is_outside_of_what_acts_and_the_menu_leads_to_pages() -> None:
    paths = [each.path for each in PAGES]
    assert len(paths) == len(set(paths))
    assert not any(each.encode().startswith(_NO_PAGES) for each in paths)
    assert {path for _, path in MENU} <= set(paths)
    assert {each.menu for each in PAGES} <= {name for name, _ in MENU}


def test_nothing_but_looking_can_be_done_at_a_page(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            await sign_in(house, it)
            for path in ("/", "/approvals", "/skills", "/record", "/policy", "/people"):
                assert (await it.get(path)).status_code == 200, path
                for method in ("POST", "PUT", "PATCH", "DELETE"):
                    answer = await it.client.request(method, path, headers=it.page)
                    assert answer.status_code == 405, (method, path)

    anyio.run(main)


def test_who_is_not_signed_in_is_shown_how_to_and_nothing_else(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, house.client() as client:
            for page in PAGES:
                path = re.sub(r"\{[a-z]+(:path)?\}", "apr_0123456789abcdef", page.path)
                answer = await client.get(path, headers=NAVIGATED)
                assert answer.status_code == 401, path
                assert 'id="sign-in"' in answer.text and 'id="live"' not in answer.text, path

    anyio.run(main)


def test_a_token_opens_no_page(premises: Premises) -> None:
    """Pages are for people before a browser; a program has the API."""

    async def main() -> None:
        async with premises.serving() as house, house.client(premises.owner()) as client:
            assert (await client.get("/record")).status_code == 401
            assert (await client.get("/api/v1/audit")).status_code == 200

    anyio.run(main)


class _Policy(HTMLParser):
    def __init__(self, nonce: str) -> None:
        super().__init__()
        self.nonce = nonce
        self.scripts = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "script":
            self.scripts += 1
            assert given["nonce"] == self.nonce
        if any(name.startswith("hx-") and name != "hx-morph-skip" for name in given):
            assert given.get("hx-nonce") == self.nonce, attrs
        assert not any(name.startswith("on") or name == "style" for name in given), attrs


def test_web_05_the_policy_of_every_page_has_no_unsafe_word_and_a_number_of_its_own(
    premises: Premises,
) -> None:
    async def main() -> None:
        async with premises.serving() as house, browser(house) as it:
            await sign_in(house, it)
            numbers: set[str] = set()
            for path in (
                "/",
                "/approvals",
                "/skills",
                "/record",
                "/policy",
                "/usage",
                "/people",
                "/channels",
                "/schedules",
                "/record/0",
            ):
                answer = await it.get(path)
                policy = answer.headers["content-security-policy"]
                assert (
                    "unsafe" not in policy
                    and "*" not in policy
                    and "http" not in policy
                    and "data:" not in policy
                ), policy
                assert "require-trusted-types-for 'script'" in policy and "frame-ancestors 'none'" in policy
                found = re.search(r"script-src 'nonce-([\w-]+)';", policy)
                assert found is not None, policy
                read = _Policy(found[1])
                read.feed(answer.text)
                assert read.scripts >= 5
                numbers.add(found[1])
            assert len(numbers) == 10

    anyio.run(main)


def test_every_operation_that_a_form_names_is_there(premises: Premises) -> None:
    async def main() -> set[str]:
        async with premises.serving() as house, house.client(premises.owner()) as client:
            answer = (await client.get("/api/v1/modules")).json()
        return {str(each["name"]) for each in answer["operations"]}

    known = anyio.run(main)
    named = {
        ".".join(address.removeprefix("/api/v1/modules/").split("/"))
        for each in TEMPLATES
        for _, address in _forms(each.read_text(encoding="utf-8"))
        if address.startswith("/api/v1/modules/")
    }
    both = {
        f"{module}.{operation}"
        for module in ("schedules", "triggers")
        for operation in ("enable", "disable", "remove")
    }
    named = {each for each in named if not each.startswith("X.")} | both  # one form for both
    assert len(named) > 10 and named <= known, named - known
