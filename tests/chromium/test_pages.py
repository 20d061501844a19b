"""Every page of the console in a real browser: usable by everybody, in every light and at every width, and within its policy."""

import re
from pathlib import Path

import pytest

import lived_in
from console_kit import no_chromium, serious, shot, until
from lived_in import ADDRESSES, MORE, Lived, pages_of
from metier.doors.http.console.page import Page as OfConsole

WIDE, NARROW = {"width": 1440, "height": 900}, {"width": 390, "height": 900}
UNFOLDED = "() => document.querySelectorAll('details').forEach((each) => { each.open = true; })"


def test_every_page_of_the_console_has_an_address_here(lived: Lived, monkeypatch: pytest.MonkeyPatch) -> None:
    there = lived.addresses()
    assert len(there) == len(set(there)) and "/channels/threads/999999" in there
    new = OfConsole(path="/new", template="", title="", shows=None, menu="")  # type: ignore[arg-type]
    monkeypatch.setattr(lived_in, "PAGES", (*lived_in.PAGES, new))
    with pytest.raises(AssertionError, match="/new"):  # the positive control
        lived.addresses()


def test_what_these_pages_show_is_what_there_is_to_be_shown(lived: Lived) -> None:
    """The positive control: an empty page is easily without fault."""
    page, place = lived.page, lived.place
    for address, selectors in {
        "/": ("[data-request][data-state=pending]", "[aria-label='Stop desk/wait']", ".happened li"),
        f"/approvals/{place['pending']}": ("details summary", "[data-decide=approve]", "[data-word]"),
        "/approvals?over=true": ("[data-state=denied] >> text=tea at four", "[data-state=spent]"),
        "/skills/bell": ("#lives-title >> text=it lives", "text=End it, and do not start it again"),
        "/skills/butler": ("text=Accept these triggers", "text=Accept these schedules"),
        "/skills/new": ("text=Trust exactly these bytes",),
        "/skills/desk/settings": ("form select", "form input[type=password]"),
        "/policy": ("article.card pre", "text=It is not meant for"),
        "/people": ("text=Take it back", "[aria-label^='Revoke the token']", "text=human:vera"),
        "/channels": ("text=Try again", "text=How it is set up", "a[href^='/channels/threads/']"),
        f"/channels/threads/{place['thread']}": ("article.card pre", "text=Erase this conversation"),
        "/schedules": ("[aria-label='Switch tea at four off']", "text=fired 0 times"),
        f"/record/calls/{place['left']}": ("text=artifacts",),
    }.items():
        page.goto(lived.at.url + address)
        for selector in selectors:
            assert page.query_selector(f"main >> {selector}") is not None, (address, selector)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_axe_finds_nothing_serious_on_any_page_wide_or_narrow_light_or_dark(lived: Lived) -> None:
    seen, found = 0, list[object]()
    for page, name in pages_of(lived):
        page.evaluate(UNFOLDED)
        picture = re.sub("[^a-z0-9]+", "-", name).strip("-") or "now"
        for size, schemes in ((WIDE, ("light", "dark")), (NARROW, ("dark", "light"))):
            page.set_viewport_size(size)
            for first, scheme in ((True, schemes[0]), (False, schemes[1])):
                page.emulate_media(color_scheme=scheme)
                found += [
                    (name, size["width"], scheme, each)
                    for each in serious(page, colours=not first or (size is NARROW and name in MORE))
                ]
                if first and name not in MORE:
                    shot(page, f"{picture}-{size['width']}-{scheme}")
            if not page.evaluate("document.documentElement.scrollWidth <= innerWidth"):
                found.append((name, size["width"], "has to be moved sideways"))
        page.set_viewport_size(WIDE)
        page.emulate_media(color_scheme="light")
        seen += 1
    assert found == []
    assert seen > len(ADDRESSES)
    assert lived.at.wrong == []


def test_axe_finds_what_is_wrong_in_either_scheme(lived: Lived) -> None:
    """The positive control."""
    page = lived.page
    page.goto(lived.at.url + "/usage")
    page.evaluate(
        "() => { const made = (tag, text) => document.querySelector('main').appendChild(Object.assign(document.createElement(tag), { textContent: text }));"
        " made('button', ''); made('p', 'pale').id = 'pale'; document.getElementById('pale').style.color = 'light-dark(#eeeeee, #2a2a28)'; }"
    )
    assert {each.split(":")[0] for each in serious(page)} == {"button-name", "color-contrast"}
    page.emulate_media(color_scheme="dark")
    assert {each.split(":")[0] for each in serious(page, colours=True)} == {"color-contrast"}
    page.emulate_media(color_scheme="light")


def test_no_policy_has_an_unsafe_word_and_what_it_forbids_is_noticed(lived: Lived) -> None:
    at, page = lived.at, lived.page
    nonces = list[str]()
    stranger = at.tab(signed_in=False)
    there = [(page, each) for each in (*lived.addresses(), "/nosuch")]
    for tab, address in (*there, (stranger, "/")):
        answer = tab.goto(at.url + address)
        assert answer is not None
        policy = answer.headers["content-security-policy"]
        assert answer.status in (200, 401, 404), (answer.url, answer.status, answer.text())
        assert "unsafe" not in policy and "*" not in policy and "data:" not in policy, answer.url
        assert "default-src 'none'" in policy and "require-trusted-types-for 'script'" in policy, answer.url
        nonces += re.findall(r"'nonce-([^']{16,})'", policy)
    assert len(set(nonces)) == len(there) + 1
    assert at.wrong == []
    # The positive controls: the browser says what it forbade, and a request to somewhere else is seen where nothing forbids it.
    page.goto(at.url + "/usage")
    page.evaluate("() => { new Image().src = 'http://elsewhere.example/x.png'; }")
    until(lambda: page.evaluate("1") and any("Content Security Policy" in each for each in at.wrong))
    at.wrong.clear()
    free = at.another(page.context)
    free.set_content("<img src='http://127.0.0.1:9/x.png'>")
    assert any("left the origin: http://127.0.0.1:9/" in each for each in at.wrong)
    free.close()
    at.wrong.clear()


def test_where_all_of_it_must_be_looked_at_the_lack_of_a_browser_is_a_failure() -> None:
    with pytest.raises(pytest.fail.Exception):
        no_chromium({"CI": "true"})
    with pytest.raises(pytest.skip.Exception):
        no_chromium({})
    assert "no_chromium(os.environ)" in (Path(__file__).parent / "conftest.py").read_text(encoding="utf-8")
