"""A person decides in a browser: exactly what he is shown, once, by mouse or by key, and nothing by mistake."""

import json
import re
from collections.abc import Callable

import pytest

from console_kit import READ_MS, Console, ask, told, until

Opens = Callable[..., Console]
NASTY = "green\u202e tea\u200b <script>alert(1)</script> \u05d0\u05d1 \u0085" + " " * 40 + "rm -rf /"


def stands(at: Console, approval: str) -> str:
    return at.approval(approval).state


@pytest.mark.slow
def test_apr_24_one_key_approves_exactly_what_is_shown_and_it_runs_once(console: Opens) -> None:
    at = console()
    approval = ask(at, NASTY)
    page = at.tab()
    page.goto(f"{at.url}/approvals/{approval}")
    card = page.wait_for_selector(f"[data-request={approval}]")
    assert card is not None
    text = card.inner_text()
    for seen in (
        "agent:cli",
        "fs_write",
        "\\u{202e}",
        "\\u{200b}",
        "<script>alert(1)</script>",
        "\\u{85}",
        "rm -rf /",
        "high risk",
    ):
        assert seen in text, seen
    assert "\u202e" not in text and "a long run of blanks" in text
    page.wait_for_function(f"() => document.activeElement.dataset.request === '{approval}'")
    page.wait_for_timeout(READ_MS)
    page.keyboard.press("a")
    told(page, "It ran, and ended well.")
    assert stands(at, approval) == "spent"
    assert (at.home / ".metier" / "workspace" / "out" / "tea.txt").read_text(encoding="utf-8") == NASTY
    page.click("#told a")
    page.wait_for_selector(".story")
    assert "approved" in page.inner_text(".story")
    assert at.wrong == []


@pytest.mark.slow
def test_web_05_a_key_that_was_meant_for_something_else_decides_nothing(console: Opens) -> None:
    at = console()
    approval = ask(at)
    page = at.tab()
    page.goto(at.url + "/approvals")
    page.wait_for_selector(f"[data-request={approval}]")
    page.keyboard.press("a")  # it has only just come
    told(page, "Read it first")
    assert stands(at, approval) == "pending"
    page.wait_for_timeout(READ_MS)
    page.evaluate("window.dispatchEvent(new Event('focus'))")  # another window was before it until now
    page.click(f"[data-request={approval}] [data-decide=approve]")
    told(page, "Read it first")
    page.focus(f"[data-request={approval}] [data-word]")
    page.keyboard.type("add a teapot")  # words, not keys
    page.keyboard.press("Control+a")
    page.wait_for_timeout(READ_MS)
    assert stands(at, approval) == "pending"
    page.focus("#main")
    page.keyboard.press("a")  # nothing that could be decided has the focus
    page.wait_for_timeout(300)
    assert stands(at, approval) == "pending"
    page.focus(f"[data-request={approval}]")
    page.wait_for_timeout(READ_MS)
    page.keyboard.press("a")  # the positive control: now it counts
    told(page, "It ran")
    assert stands(at, approval) == "spent"


@pytest.mark.slow
def test_what_is_not_on_the_screen_is_not_decided_by_a_key(console: Opens) -> None:
    at = console()
    first, second = ask(at, "x\n" * 30, "out/1.txt"), ask(at, "y\n" * 30, "out/2.txt")
    page = at.tab(width=390)
    page.goto(at.url + "/approvals")
    page.wait_for_selector(f"[data-request={second}]")
    page.focus(f"[data-request={first}]")
    page.evaluate("scrollTo(0, document.body.scrollHeight)")
    page.wait_for_timeout(READ_MS)
    page.keyboard.press("a")
    page.wait_for_timeout(300)
    assert stands(at, first) == "pending"
    assert page.evaluate(f"document.getElementById('{first}').getBoundingClientRect().bottom > 80")


@pytest.mark.slow
def test_a_no_is_said_with_a_word_by_keys_alone_and_never_runs(console: Opens) -> None:
    at = console()
    approval, other = ask(at, path="out/1.txt"), ask(at, path="out/2.txt")
    page = at.tab()
    page.goto(at.url + "/approvals")
    page.wait_for_selector(f"[data-request={other}]")
    page.keyboard.press("j")  # the focus is on the first; this is the second
    page.wait_for_function(f"() => document.activeElement.dataset.request === '{other}'")
    page.keyboard.press("w")
    page.keyboard.type("not <b>today</b>")
    page.wait_for_timeout(READ_MS)
    page.keyboard.press("Enter")
    told(page, "Denied")
    found = at.approval(other)
    assert (found.state, found.word) == ("denied", "not <b>today</b>")
    assert stands(at, approval) == "pending"
    assert not (at.home / ".metier" / "workspace" / "out" / "2.txt").exists()


@pytest.mark.slow
def test_a_standing_grant_is_shown_word_for_word_before_it_is_given(console: Opens) -> None:
    def write(path: str) -> str:
        return at.metier("call", "fs_write", json.dumps({"path": path, "content": "tea"}), "--json")

    at = console()
    found = re.search(r"apr_[0-9a-f]+", write("out/1.txt"))
    assert found is not None
    page = at.tab()
    page.goto(at.url + "/approvals")
    page.wait_for_selector(f"[data-request={found[0]}]")
    page.keyboard.press("l")
    page.wait_for_selector("#grant-title")
    said = page.inner_text("main")
    assert "exactly those of this request" in said and "until it is revoked" in said
    page.check("input[name=any_arguments]")
    page.fill("input[name=uses]", "2")
    page.click("text=Show the grant again")
    page.wait_for_selector("text=2 times")
    assert "arguments      ANY" in page.inner_text("main")
    page.wait_for_timeout(READ_MS)
    page.click("[data-grant]")
    told(page, "It ran")
    assert '"completed"' in write("out/2.txt")  # nobody was asked
    page.goto(at.url + "/people")
    page.click("text=Take it back")
    told(page, "Taken back")
    assert '"pending"' in write("out/3.txt")
    assert at.wrong == []


@pytest.mark.slow
def test_limits_that_were_typed_and_not_shown_yet_are_not_given_and_neither_is_a_grant_without_them(
    console: Opens,
) -> None:
    at = console()
    approval = ask(at)
    page = at.tab()
    page.goto(
        f"{at.url}/approvals/{approval}?scope=always&uses=1_0"
    )  # somebody else may have written that link
    page.wait_for_selector("text=That cannot be granted")
    assert page.query_selector("[data-grant]") is None
    page.goto(f"{at.url}/approvals/{approval}?scope=always")
    page.fill("input[name=uses]", "2")
    page.wait_for_timeout(READ_MS)
    page.click("[data-grant]")
    told(page, "Show the grant again")
    assert stands(at, approval) == "pending"
    page.click("button:has-text('Show the grant again')")
    page.wait_for_selector("text=2 times")
    page.wait_for_timeout(READ_MS)
    page.click("[data-grant]")
    told(page, "It ran")
    assert "2 times" in at.metier("grants", "list")
    assert at.wrong == []


@pytest.mark.slow
def test_web_16_a_page_that_is_out_of_date_decides_nothing(console: Opens) -> None:
    at = console()
    approval = ask(at)
    page = at.tab()
    page.goto(f"{at.url}/approvals/{approval}")
    page.wait_for_selector(f"[data-request={approval}]")
    page.evaluate(f"document.getElementById('{approval}').dataset.fingerprint = 'f'.repeat(64)")
    page.wait_for_timeout(READ_MS)
    page.keyboard.press("a")
    told(page, "not the act that you were shown")
    assert stands(at, approval) == "pending"


@pytest.mark.slow
def test_who_may_not_decide_sees_no_button_and_who_may_not_look_sees_nothing(console: Opens) -> None:
    at = console()
    approval = ask(at)
    at.metier("principals", "add", "human:vera", "--role", "viewer")
    page = at.tab(signed_in=False)
    page.goto(f"{at.url}/approvals/{approval}")
    page.wait_for_selector("#sign-in:not([hidden])")
    assert approval not in page.inner_text("main")
    at.password("human:vera", "correct horse battery")
    page.fill("input[name=id]", "vera")
    page.fill("input[name=password]", "correct horse battery")
    page.keyboard.press("Enter")
    page.wait_for_selector(
        f"[data-request={approval}]"
    )  # the request of the link is still there after the password
    assert page.query_selector("[data-decide]") is None and "skills:approve" in page.inner_text("main")
    page.keyboard.press("a")
    page.wait_for_timeout(300)
    assert stands(at, approval) == "pending"


@pytest.mark.slow
def test_a_used_link_says_so_and_leaves_every_other_way_in(console: Opens) -> None:
    at = console()
    link = at.link
    at.tab()
    page = at.tab(signed_in=False)
    page.goto(link)
    page.wait_for_selector("#sign-in:not([hidden])")
    assert "used before" in page.inner_text("#who") and "#token" not in page.url
    until(lambda: "metier sign-in" in page.inner_text("#who"))
