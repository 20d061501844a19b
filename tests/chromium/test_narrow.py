"""What comes back is readable: on a phone too, no word is broken that fits, and rules that are wrong are told in red."""

from collections.abc import Callable

from playwright.sync_api import Page

from console_kit import READ_MS, Console, ask, press, serious

Opens = Callable[..., Console]
BROKEN = """() => {
  const found = [];
  for (const cell of document.querySelectorAll("#live :is(td, th)")) {
    const walker = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      for (const word of walker.currentNode.data.matchAll(/[A-Za-z0-9_]+/g)) {
        if (word[0].length > 20) continue;
        const range = document.createRange();
        range.setStart(walker.currentNode, word.index);
        range.setEnd(walker.currentNode, word.index + word[0].length);
        if (range.getClientRects().length > 1) found.push(word[0]);
      }
    }
  }
  return found;
}"""
RULES = '[[rule]]\ndecision = "deny"\ntool = ["fs_write/execute"]\nbecause = "nobody writes"\n'


def sideways(page: Page) -> bool:
    return bool(page.evaluate("() => document.documentElement.scrollWidth > innerWidth"))


def tried(page: Page, rules: str) -> str:
    """What the page says to these rules."""
    page.fill("textarea", rules)
    press(page, "text=Replay with these")
    page.wait_for_function("() => !['', 'Asked…'].includes(document.getElementById('told').textContent)")
    return page.inner_text("#told")


def test_no_word_of_a_table_is_broken_on_a_phone(console: Opens) -> None:
    at = console()
    at.metier("principals", "add", "human:ada", "--role", "approver")
    at.metier("tokens", "add", "agent:mcp", "--scope", "skills:execute", "--name", "the helper")
    ask(at)
    page = at.tab(width=390)
    for path in ("/people", "/record", "/record?looks=true", "/usage?looks=true"):
        page.goto(at.url + path)
        assert page.query_selector("#live td") is not None, path
        assert page.evaluate(BROKEN) == [], path
        assert not sideways(page), path
    assert at.wrong == []


def test_rules_that_are_wrong_are_told_in_red_with_the_line_and_what_to_do(console: Opens) -> None:
    at = console()
    page = at.tab()
    page.goto(at.url + "/policy/replay")
    said = tried(page, 'because = "x"\nnot toml [')
    assert page.get_attribute("#told", "class") == "bad"
    assert "line 2" in said and "Correct that line" in said
    assert page.input_value("textarea").endswith("not toml [")
    assert "judged" not in page.inner_text("#tried")


def test_what_other_rules_would_change_is_a_table_in_words_that_leads_to_the_calls(console: Opens) -> None:
    at = console()
    call = at.approval(ask(at)).call_id
    page = at.tab(width=390)
    page.goto(at.url + "/policy/replay")
    tried(page, RULES)
    assert page.get_attribute("#told", "class") == "good"
    heads = page.locator("#tried th").all_inner_texts()
    assert heads[:3] == ["It was", "It would be", "Calls"] and "By the rules" in heads
    assert page.get_attribute("#tried td a", "href") == f"/record/calls/{call}"
    told = page.inner_text("#tried")
    assert not [each for each in ("[", "{", "undecidable", "seq", "would_be") if each in told]
    assert page.evaluate(BROKEN) == []
    assert not sideways(page)
    assert serious(page) == []
    assert at.wrong == []


def test_the_keyboard_goes_on_where_a_pressed_button_was(console: Opens) -> None:
    at = console()
    at.metier("principals", "add", "agent:helper")
    page = at.tab()
    page.goto(at.url + "/people")
    page.wait_for_timeout(READ_MS)
    button = page.locator("[aria-label='Revoke agent:helper']")
    button.focus()
    page.keyboard.press("Enter")
    page.wait_for_timeout(READ_MS)
    page.keyboard.press("Enter")
    page.wait_for_function("() => !document.querySelector(\"[aria-label='Revoke agent:helper']\")")
    page.wait_for_function("() => document.activeElement.id === 'told'")
