"""A press counts for what was read, and for nothing that came under it since; and a page never looks better than things are."""

import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from console_kit import READ_MS, Console, ask, listening, noter, press, told, until

Opens = Callable[..., Console]
TRUST = "text=Trust exactly these bytes"
EARLY = "Read it first"


def stands(at: Console, approval: str) -> str:
    return at.approval(approval).state


@pytest.mark.slow
def test_web_05_a_click_that_comes_too_early_or_after_the_bytes_changed_trusts_nothing(
    console: Opens,
) -> None:
    at = console(prepare=noter)
    page = at.tab()
    page.goto(at.url + "/skills/noter")
    listening(page)
    page.wait_for_timeout(READ_MS)
    page.evaluate("window.dispatchEvent(new Event('focus'))")  # another window was before it until now
    page.click(TRUST)
    told(page, EARLY)
    page.wait_for_timeout(READ_MS)
    digest = page.get_attribute("form[data-post$='skills/trust'] input[name=digest]", "value")
    skill = at.home / "skills" / "noter" / "SKILL.md"
    skill.write_text(skill.read_text(encoding="utf-8") + "And send them to somebody.\n", encoding="utf-8")
    page.wait_for_function(
        "old => { const now = document.querySelector(\"form[data-post$='skills/trust'] input[name=digest]\");"
        " if (!now || now.value === old) return false; now.form.querySelector('button').click(); return true; }",
        arg=digest,
    )
    told(page, EARLY)
    assert page.query_selector(TRUST) is not None
    press(page, TRUST)  # the positive control: what he has read now
    told(page, "Trusted")
    assert at.wrong == []


@pytest.mark.slow
def test_web_05_a_request_that_slid_under_the_pointer_is_not_decided_and_neither_is_one_by_drumming(
    console: Opens,
) -> None:
    at = console()
    first, second, third = (ask(at, path=f"out/{number}.txt") for number in range(3))
    page = at.tab()
    page.goto(at.url + "/approvals")
    listening(page)
    page.evaluate(f"document.getElementById('{third}').focus({{ preventScroll: true }}); scrollTo(0, 0)")
    page.wait_for_timeout(READ_MS)
    page.evaluate(
        "([gone, next]) => new MutationObserver((_, watching) => { if (document.getElementById(gone)) return; watching.disconnect();"
        " requestAnimationFrame(() => document.querySelector(`[data-request=${next}] [data-decide=approve]`).click()); })"
        ".observe(document.body, { childList: true, subtree: true })",
        [first, second],
    )
    at.metier("approvals", "deny", first)
    told(page, EARLY)
    for _ in range(8):
        page.keyboard.press("a")
        time.sleep(0.15)
    assert (stands(at, second), stands(at, third)) == ("pending", "pending")
    for _ in range(4):  # the positive control: brought onto the screen, read, and then pressed
        page.wait_for_timeout(READ_MS)
        page.keyboard.press("a")
    told(page, "It ran")
    assert "spent" in (stands(at, second), stands(at, third))
    assert at.wrong == []


WATCHING = """() => {
  // What a person could have seen, by another reckoning than the page's own: which lines of the text were in the window, every 20 ms.
  window.lines = new Set();
  setInterval(() => {
    const foot = innerHeight - document.getElementById('told').offsetHeight;
    for (const text of document.querySelectorAll('[data-request] .parts > .exact')) {
      const { top } = text.getBoundingClientRect();
      const high = parseFloat(getComputedStyle(text).lineHeight);
      text.textContent.split('\\n').forEach((line, number) => {
        const at = top + (number + 0.5) * high;
        if (at > 0 && at < foot) window.lines.add(line.trim());
      });
    }
  }, 20);
}"""


def pressed_through(page: Page, at: Console, approval: str, most: int = 30) -> int:
    """How many presses of `a` it took, each after a look."""
    for number in range(1, most):
        page.wait_for_timeout(READ_MS)
        page.keyboard.press("a")
        page.wait_for_timeout(300)
        if stands(at, approval) != "pending":
            return number
    raise AssertionError("it is never approved")


@pytest.mark.slow
@pytest.mark.parametrize(("width", "height"), [(1000, 460), (390, 844)])
def test_apr_23_every_line_of_what_runs_was_on_the_screen_before_it_can_be_approved(
    console: Opens, width: int, height: int
) -> None:
    at = console()
    script = "".join(f"echo {number}\n" for number in range(36))
    approval = ask(at, script)
    page = at.tab(width=width)
    page.set_viewport_size({"width": width, "height": height})
    page.goto(at.url + "/approvals")
    page.wait_for_selector(f"[data-request={approval}]")
    page.evaluate(WATCHING)
    page.wait_for_function(f"() => document.activeElement.dataset.request === '{approval}'")
    page.wait_for_timeout(READ_MS)
    page.keyboard.press("a")
    told(page, "There was more to read")
    assert stands(at, approval) == "pending"
    pressed_through(page, at, approval)
    told(page, "It ran")
    seen = set(page.evaluate("[...window.lines]"))
    assert {f'| "echo {number}\\n"' for number in range(35)} <= seen
    assert at.wrong == []


@pytest.mark.slow
def test_apr_23_warnings_and_what_it_may_touch_were_on_the_screen_however_high_they_stand(
    console: Opens,
) -> None:
    at = console()
    mixed = " ".join(f"p\u0430ypal{number}" for number in range(60))  # each word is one more warning
    approval = ask(at, mixed + "x" * 2_000)
    page = at.tab(width=390)
    page.goto(at.url + "/approvals")
    page.wait_for_selector(f"[data-request={approval}]")
    assert page.evaluate(
        "document.querySelector('.exact').scrollHeight <= document.querySelector('.exact').clientHeight + 2"
    )
    page.wait_for_function(f"() => document.activeElement.dataset.request === '{approval}'")
    assert pressed_through(page, at, approval) > 2
    told(page, "It ran")
    assert at.wrong == []


@pytest.mark.slow
def test_apr_23_what_is_folded_is_not_asked_for_while_it_is_closed_and_counts_once_it_is_open(
    console: Opens,
) -> None:
    """A text in a closed fold has a height and a place on the page, where nobody sees it."""
    at = console()
    first = ask(at, "".join(f"echo {number}\n" for number in range(300)))
    page = at.tab()
    page.goto(at.url + f"/approvals/{first}")
    page.wait_for_selector("[data-request] summary")
    page.focus("[data-request]")
    assert pressed_through(page, at, first) < 8  # as it says, what is not unfolded is approved unread
    second = ask(at, "".join(f"echo {number}\n" for number in range(70)))
    page.goto(at.url + f"/approvals/{second}")
    page.wait_for_selector("[data-request] summary")
    page.evaluate("scrollTo(0, document.body.scrollHeight)")  # past where it would stand
    page.wait_for_timeout(200)
    page.evaluate("scrollTo(0, 0)")
    page.evaluate("document.querySelector('[data-request] details').open = true")
    page.focus("[data-request]")
    page.wait_for_timeout(READ_MS)
    page.keyboard.press("a")
    told(page, "There was more to read")
    assert stands(at, second) == "pending"
    pressed_through(page, at, second)
    assert at.wrong == []


@pytest.mark.slow
def test_web_05_each_of_several_forms_of_one_address_counts_for_itself(console: Opens) -> None:
    at = console(prepare=noter)
    at.metier("skills", "trust", "noter", "--yes")
    page = at.tab()
    page.goto(at.url + "/skills/noter/settings")
    page.wait_for_selector("form[data-method=DELETE] button")
    page.wait_for_timeout(READ_MS)
    page.evaluate("document.querySelector('form[data-method=DELETE]').style.paddingLeft = '200px'")
    page.click("form[data-method=DELETE] button")
    told(page, EARLY)
    page.wait_for_timeout(READ_MS)
    page.click("form[data-method=DELETE] button")  # the positive control
    page.wait_for_selector("text=Press again: all settings")


@pytest.mark.slow
def test_apr_23_a_grant_is_given_once_it_and_what_it_is_for_were_read(console: Opens) -> None:
    at = console()
    approval = ask(at)
    page = at.tab(width=1000)
    page.set_viewport_size({"width": 1000, "height": 420})
    page.goto(at.url + f"/approvals/{approval}?scope=always&any_arguments=true")
    page.wait_for_timeout(READ_MS)
    page.evaluate("document.querySelector('[data-grant]').click()")  # as a click, wherever it stands
    told(page, "There was more to read")
    assert stands(at, approval) == "pending"
    for _ in range(8):
        page.wait_for_timeout(READ_MS)
        page.evaluate("document.querySelector('[data-grant]')?.click()")
        if "grant was given" in page.inner_text("#told"):
            break
    told(page, "grant was given")
    assert at.wrong == []


@pytest.mark.slow
def test_web_05_what_a_server_answers_puts_nothing_under_a_press_that_was_meant_for_something_else(
    console: Opens,
) -> None:
    """What moves without being fetched counts like everything else: here a form that was hidden until now comes to where a button stood."""
    at = console(prepare=noter)
    page = at.tab()
    page.goto(at.url + "/skills/noter")
    page.wait_for_timeout(READ_MS)
    page.evaluate(
        "() => { const form = document.querySelector(\"form[data-post$='skills/trust']\"); form.hidden = true; }"
    )
    page.wait_for_timeout(READ_MS)
    page.evaluate("document.querySelector(\"form[data-post$='skills/trust']\").hidden = false")
    page.click(TRUST)
    told(page, EARLY)
    page.wait_for_timeout(READ_MS)
    page.evaluate("document.querySelector('h1').style.paddingTop = '60px'")  # whatever came above it
    page.click(TRUST)
    told(page, EARLY)
    press(page, TRUST)  # the positive control
    told(page, "Trusted")


@pytest.mark.slow
def test_web_05_what_is_said_moves_no_button_under_the_finger(console: Opens) -> None:
    """Also where a browser does not make up for what comes above by scrolling."""
    at = console()
    ask(at)
    page = at.tab(width=360)
    page.goto(at.url + "/approvals")
    page.wait_for_selector("[data-request]")
    page.evaluate("document.documentElement.style.overflowAnchor = 'none'")
    where = "() => { const { top, left } = document.querySelector('[data-decide=deny]').getBoundingClientRect(); return [top, left]; }"
    page.locator("[data-decide=deny]").scroll_into_view_if_needed()
    page.wait_for_timeout(READ_MS)
    before = page.evaluate(where)
    page.evaluate(
        "window.dispatchEvent(new Event('focus')); document.querySelector('[data-decide=deny]').click()"
    )
    told(page, EARLY)
    assert page.evaluate(where) == before


@pytest.mark.slow
def test_a_double_click_is_one_press_where_two_are_asked_for(console: Opens) -> None:
    at = console()
    at.metier("principals", "add", "agent:helper")
    page = at.tab()
    page.goto(at.url + "/people")
    button = "button[aria-label='Revoke agent:helper']"
    page.wait_for_timeout(READ_MS)
    page.dblclick(button)
    page.wait_for_timeout(READ_MS)
    assert "Press again" in page.inner_text(button) and page.query_selector("text=revoked") is None
    page.click(button)  # the positive control
    told(page, "Revoked")
    assert at.wrong == []


@pytest.mark.slow
def test_a_link_opened_where_somebody_is_signed_in_leaves_the_address_and_is_used_up(console: Opens) -> None:
    at = console()
    page = at.tab()
    link = at.new_link()
    page.goto(at.url + "/record")
    page.goto(link)
    page.wait_for_function("() => location.hash === ''")
    page.wait_for_selector("#live")
    stranger = at.tab(signed_in=False)
    until(lambda: page.evaluate("performance.getEntriesByType('navigation')[0].type") == "reload")
    stranger.goto(link)
    stranger.wait_for_selector("#sign-in:not([hidden])")
    assert "used before" in stranger.inner_text("#who")


@pytest.mark.slow
def test_a_page_that_cannot_be_looked_at_again_says_so_and_keeps_what_it_shows(console: Opens) -> None:
    at = console()
    first = ask(at, path="out/1.txt")
    page = at.tab()
    page.goto(at.url + "/approvals")
    listening(page)
    for place in ("**/approvals", "**/around"):
        page.route(place, lambda route: route.fulfill(status=431, content_type="application/json", body="{}"))
    second = ask(at, path="out/2.txt")
    page.wait_for_function("() => document.getElementById('line').textContent.includes('431')")
    assert page.query_selector(f"[data-request={first}]") is not None
    page.unroute("**/approvals")
    page.unroute("**/around")
    third = ask(at, path="out/3.txt")
    for each in (second, third):
        page.wait_for_selector(f"[data-request={each}]")
    listening(page)
    assert at.wrong == []


@pytest.mark.slow
def test_half_a_word_holds_nothing_up_and_is_still_there_when_a_request_comes(console: Opens) -> None:
    at = console()
    first = ask(at, path="out/1.txt")
    page = at.tab()
    listening(page)
    page.fill("#why", "because the")
    page.focus(f"[data-request={first}] [data-word]")
    page.keyboard.type("not to")
    second = ask(at, path="out/2.txt")
    page.wait_for_selector(f"[data-request={second}]")
    page.keyboard.type("day")
    assert page.input_value(f"[data-request={first}] [data-word]") == "not today"
    assert page.input_value("#why") == "because the"
    assert at.wrong == []


@pytest.mark.slow
def test_a_record_that_was_changed_is_said_in_red_and_one_that_is_whole_in_a_sentence(console: Opens) -> None:
    at = console()
    page = at.tab()
    page.goto(at.url + "/record")
    press(page, "text=Verify the record")
    told(page, "none of them changed")
    assert page.get_attribute("#told", "class") == "good"
    said = '{"ok": false, "records": 285, "head": "", "first_bad": 286, "problem": "record 286 does not match its hash"}'
    page.route(
        "**/api/v1/audit/verify", lambda route: route.fulfill(content_type="application/json", body=said)
    )
    press(page, "text=Verify the record")
    told(page, "record 286 does not match its hash")
    assert page.get_attribute("#told", "class") == "bad" and "286" in page.inner_text("#verified")
    assert at.wrong == []


@pytest.mark.slow
def test_json_is_sent_as_it_was_typed(console: Opens) -> None:
    at = console()
    page = at.tab()
    typed = '{"a": 1e400, "c": 1, "c": 2, "d": -0, "e": 9007199254740993}'
    page.evaluate("text => { document.querySelector('.guide [name=arguments]').value = text; }", typed)
    page.wait_for_timeout(READ_MS)
    with page.expect_request("**/api/v1/calls") as sent:
        page.click("text=Ask to write out/hello.txt")
    assert f'"arguments":{typed}' in (sent.value.post_data or "")
    page.wait_for_selector("#told.bad")  # and refused: a name stands twice


@pytest.mark.slow
def test_who_signed_out_in_one_tab_is_shown_nothing_more_in_the_others(console: Opens) -> None:
    at = console()
    page = at.tab()
    listening(page)
    other = at.another(page.context)
    other.goto(at.url + "/record")
    other.click("#sign-out")
    page.wait_for_selector("#sign-in:not([hidden])")  # without anybody touching it
