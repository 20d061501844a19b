"""An open page hears of what happens: at once, in every tab, and again after the server was away."""

from collections.abc import Callable
from datetime import datetime

import pytest
from playwright.sync_api import Page, Route

from console_kit import READ_MS, Console, ask, listening, noter, press, until
from metier.record.newest import after

Opens = Callable[..., Console]
SOON = 0.5
"""Seconds from the record of something to its being on an open page."""


@pytest.mark.slow
def test_what_is_asked_is_on_every_open_tab_within_half_a_second_and_gone_when_it_is_decided_elsewhere(
    console: Opens,
) -> None:
    at = console()
    first = at.tab()
    second = at.another(first.context)
    second.goto(at.url + "/approvals")
    for page in (first, second):
        listening(page)
        # What is measured is the way from the record to the page, so the page itself says when it saw it.
        page.evaluate(
            "window.seen = []; new MutationObserver(() => { for (const each of document.querySelectorAll('[data-request]'))"
            " if (!window.seen.some(([id]) => id === each.dataset.request)) window.seen.push([each.dataset.request, Date.now()]); })"
            ".observe(document.body, { childList: true, subtree: true, attributes: true })"
        )
    approval = ask(at)
    asked_at = at.asked_at(approval)
    for page in (first, second):
        page.wait_for_selector(f"[data-request={approval}]")
        [moment] = [when for id, when in page.evaluate("window.seen") if id == approval]
        assert moment / 1_000 - asked_at < SOON, (moment, asked_at)
    assert first.inner_text("#waiting-count") == "1" and first.title().startswith("(1) ")

    at.metier("approvals", "deny", approval)
    for page in (first, second):
        page.wait_for_selector(f"[data-request={approval}][data-state=pending]", state="detached")
    until(lambda: first.inner_text("#waiting-count") == "")
    assert at.wrong == []


def watched(page: Page, words: str) -> None:
    """From now on the page remembers when it first showed this."""
    page.evaluate(
        "words => { window.shown ??= {}; const look = () => { if (!(words in window.shown)"
        " && document.getElementById('live').textContent.includes(words)) window.shown[words] = Date.now() / 1000; };"
        " look(); new MutationObserver(look).observe(document.body, { childList: true, subtree: true, characterData: true }) }",
        words,
    )


CHANGES: dict[str, tuple[str, list[str], str, str]] = {
    # page: what changes it, what is on it then, and the record of that
    "/people": ("principals add human:ada --role viewer", [], "human:ada", "principal_added"),
    "/usage": ("call fs_read", ['{"path": "memory/none.md"}'], "fs_read/execute", "skill_executed"),
    "/schedules": (
        "schedules add --name brief --every 6h --tool fs_read/execute --arguments",
        ['{"path": "memory/a.md"}'],
        "brief",
        "skill_executed",
    ),
    "/skills/noter": ("skills disable noter", [], "Switch it on again", "skill_disabled"),
    "/skills/noter/settings": ("settings set noter", ["prefix=memo"], "", "skill_executed"),
    "/policy": ("trust set observe", [], "act by themselves: observe", "trust_level_changed"),
    "/record": ("audit checkpoint", [], "signed the record", "head_signed"),
}


@pytest.mark.slow
@pytest.mark.timeout(200)
def test_every_page_that_shows_what_changes_hears_of_it_within_half_a_second(console: Opens) -> None:
    at = console(prepare=noter)
    at.metier("skills", "trust", "noter", "--yes")
    first = at.tab()
    tabs = {path: at.another(first.context) for path in CHANGES}
    for path, page in tabs.items():
        page.goto(at.url + path)
    for path, (command, more, words, event) in CHANGES.items():
        page = tabs[path]
        listening(page)
        if words:
            assert words not in page.inner_text("#live"), (path, "control")
            watched(page, words)
        said = at.metier(*command.split(), *more)
        if not words:
            page.wait_for_function("() => document.querySelector('[value=memo]')")
            continue
        page.wait_for_function("words => window.shown[words]", arg=words)
        with at._state() as database:
            [written] = [each.at for each in after(database, 0, 1_000) if each.event == event][-1:]
        took = (
            page.evaluate("words => window.shown[words]", words) - datetime.fromisoformat(written).timestamp()
        )
        assert took < SOON, (path, took, said)
    assert at.wrong == []


@pytest.mark.slow
def test_rules_that_are_changed_by_hand_are_on_the_page_at_once(console: Opens) -> None:
    at = console()
    page = at.tab()
    page.goto(at.url + "/policy")
    listening(page)
    rules = at.home / ".metier" / "policy.toml"
    rules.write_text('[[rule]]\ndecision = "ask"\ntool = "fs_read"\nbecause = "it is private"\n')
    page.wait_for_selector("text=it is private")
    rules.write_text("[[rule]\n")  # half a rule: everything is refused, and every page says so
    page.wait_for_selector(".banner >> text=Everything is refused")
    rules.write_text('[[rule]]\ndecision = "deny"\ntool = "fs_read"\nbecause = "it is secret"\n')
    page.wait_for_selector("text=it is secret")
    page.wait_for_selector(".banner", state="detached")
    assert at.wrong == []


@pytest.mark.slow
def test_a_page_that_is_filled_by_operations_does_not_hear_its_own_looking(console: Opens) -> None:
    at = console()
    page = at.tab()
    for path in ("/usage", "/people", "/policy", "/schedules", "/channels", "/channels/threads/999"):
        page.goto(at.url + path)
        listening(page)
        asked: list[str] = []
        page.on("request", lambda each, asked=asked: asked.append(each.url))
        page.wait_for_timeout(1_500)
        assert [each for each in asked if each.endswith(path)] == [], path
    rules = at.home / ".metier" / "policy.toml"
    rules.write_text('[[rule]]\ndecision = "deny"\ntool = "audit.usage"\nbecause = "not he"\n')
    page.goto(at.url + "/usage")  # in vain
    listening(page)
    page.wait_for_selector("text=not he")
    asked.clear()
    page.wait_for_timeout(1_500)
    assert [each for each in asked if each.endswith(("/usage", "/around"))] == []


@pytest.mark.slow
def test_how_long_ago_it_was_and_how_much_is_left_stays_right_on_a_page_that_nobody_touches(
    console: Opens,
) -> None:
    at = console()
    page = at.tab()
    page.goto(at.url + "/approvals")
    ask(at)
    page.wait_for_selector("[data-request]")
    at.stop()  # nobody tells it anything
    time = page.locator("[data-request] time").first
    page.wait_for_function(
        "() => /^[3-9] s ago$/.test(document.querySelector('[data-request] time').textContent)"
    )
    page.clock.install()
    page.evaluate("document.querySelector('[data-request] time').textContent = ''")
    page.clock.fast_forward(120_000)
    until(lambda: time.inner_text().startswith("2 min"))


@pytest.mark.slow
@pytest.mark.parametrize("tabs", [1, 2])
def test_what_happens_after_a_page_was_made_and_before_it_can_listen_is_on_it_all_the_same(
    console: Opens, tabs: int
) -> None:
    at = console()
    page = at.tab()
    listening(page)
    if tabs == 2:  # somebody listens already; else the page itself begins to
        page = at.another(page.context)
    asked: list[str] = []

    def held_up(route: Route) -> None:
        asked.append(ask(at))
        route.continue_()

    page.route("**/live.js", held_up)
    page.goto(at.url + "/approvals")
    page.wait_for_selector(f"[data-request={asked[0]}]")
    assert page.inner_text("#waiting-count") == "1" and at.wrong == []


@pytest.mark.slow
def test_a_lost_connection_is_shown_and_the_page_is_right_again_by_itself(console: Opens) -> None:
    at = console()
    page = at.tab()
    page.goto(at.url + "/approvals")
    listening(page)
    at.stop()
    page.wait_for_function("() => document.getElementById('line').textContent.includes('lost')")
    approval = ask(at)  # while nobody serves
    at.start_again()
    page.wait_for_selector(f"[data-request={approval}]", timeout=20_000)
    listening(page)


@pytest.mark.slow
def test_ten_tabs_of_one_browser_take_one_stream_and_all_of_them_hear(console: Opens) -> None:
    """A browser has six connections to a server: where each tab held one, the seventh would stand still."""
    at = console()
    first = at.tab()
    tabs = [first, *(at.another(first.context) for _ in range(9))]
    for page in tabs[1:]:
        page.goto(at.url + "/approvals")
    for page in tabs:
        listening(page)
    approval = ask(at)
    for page in tabs:
        page.wait_for_selector(f"[data-request={approval}]")
    assert at.wrong == []


@pytest.mark.slow
def test_a_session_that_is_over_leads_to_signing_in_and_not_to_half_a_page(console: Opens) -> None:
    at = console()
    page = at.tab()
    listening(page)
    other = at.another(page.context)
    other.goto(at.url + "/record")
    other.click("#sign-out")
    other.wait_for_selector("#sign-in:not([hidden])")
    page.evaluate("metier.look()")
    page.wait_for_selector("#sign-in:not([hidden])")


@pytest.mark.slow
def test_every_page_says_how_much_waits_and_that_everything_is_stopped_without_being_loaded_again(
    console: Opens,
) -> None:
    at = console()
    first = at.tab()
    tabs = [first]
    for path in ("/policy", "/people", "/approvals", "/skills/writing-skills/try"):
        tabs.append(at.another(first.context))
        tabs[-1].goto(at.url + path)
    for page in tabs:
        listening(page)
    approval = ask(at)
    for page in tabs:
        page.wait_for_function("() => document.getElementById('waiting-count').textContent === '1'")
        assert page.title().startswith("(1) ")
    at.metier("approvals", "deny", approval)
    at.metier("stop", "--why", "fire")  # at a terminal, and not here
    for page in tabs:
        page.wait_for_selector(".banner >> text=fire")
        page.wait_for_function("() => document.getElementById('waiting-count').textContent === ''")
    press(tabs[1], "text=Let things run again")
    for page in tabs:
        page.wait_for_selector(".banner", state="detached")
    assert at.wrong == []


@pytest.mark.slow
def test_what_was_typed_is_still_there_when_it_was_refused_and_gone_when_it_was_taken(console: Opens) -> None:
    at = console()
    page = at.tab()
    page.goto(at.url + "/people")
    listening(page)
    form = page.locator("form[data-post$='principals/add']")
    form.locator("[name=id]").fill("human ada")
    form.get_by_label("viewer").check()
    page.wait_for_timeout(READ_MS)
    form.locator("button").click()
    page.wait_for_selector("#told.bad")
    page.wait_for_timeout(600)  # longer than a look takes
    assert form.locator("[name=id]").input_value() == "human ada" and form.get_by_label("viewer").is_checked()
    form.locator("[name=id]").fill("human:ada")
    page.wait_for_timeout(READ_MS)
    form.locator("button").click()
    page.wait_for_selector("td >> text=human:ada")
    until(lambda: form.locator("[name=id]").input_value() == "")
    assert at.wrong == []
