"""Every page works by keys alone: whatever can be pressed or filled in is reached by Tab, in order, and is seen to have been reached; and
what a person has to do in a day is done without a pointer."""

from typing import Any

import pytest
from playwright.sync_api import Page

from console_kit import READ_MS, told, until
from lived_in import ADDRESSES, Lived, does, done, pages_of
from metier.catalog.here import owner

PASSWORD = "a long one, for the owner"
CONTROLS = """() => {
  for (const each of document.querySelectorAll("details")) each.open = true;
  const all = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")];
  window.controls = all.filter((each) => !each.disabled && each.checkVisibility({ visibilityProperty: true }));
  window.controls[0].focus();
  return window.controls.map((each) => each.outerHTML.slice(0, 120));
}"""
FOCUSED = """() => {
  const here = document.activeElement;
  const style = getComputedStyle(here);
  const { top, bottom, left, right } = here.getBoundingClientRect();
  return {
    at: window.controls.indexOf(here),
    what: here.outerHTML.slice(0, 120),
    framed: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2
      && ![getComputedStyle(document.body).backgroundColor, "rgba(0, 0, 0, 0)"].includes(style.outlineColor),
    there: bottom > 0 && top < innerHeight && right > 0 && left < innerWidth,
  };
}"""
IS = """(name) => {
  const here = document.activeElement;
  const said = (here.getAttribute("aria-label") ?? here.labels?.[0]?.innerText ?? here.innerText ?? "").trim();
  return here.matches(":focus-visible") && said.startsWith(name) && !/[a-z0-9]/i.test(said.charAt(name.length));
}"""


def walked(page: Page) -> tuple[list[str], list[dict[str, Any]]]:
    """What there is to reach on a page, and what Tab reaches, one after another, until it is past the last one and around."""
    controls: list[str] = page.evaluate(CONTROLS)
    reached: list[dict[str, Any]] = []
    for _ in range(len(controls) * 4):  # a date is three fields and a button in one control
        page.keyboard.press("Tab")
        now: dict[str, Any] = page.evaluate(FOCUSED)
        if now["at"] == 0 and reached:
            break
        if now["at"] >= 0 and now["at"] != (reached[-1]["at"] if reached else 0):
            reached.append(now)
    return controls, [now, *reached]


def amiss(page: Page) -> list[object]:
    """What of a page is not reached, or not in its order, or without anybody seeing it; or that there is no way out of it."""
    controls, reached = walked(page)
    order = [each["at"] for each in reached]
    found: list[object] = [("missed", each) for at, each in enumerate(controls) if at not in order]
    found += [("not seen", each) for each in reached if not (each["framed"] and each["there"])]
    return found or ([] if order == list(range(len(controls))) else [("out of order", order)])


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("width", [1440, 390])
def test_every_control_of_every_page_is_reached_by_tab_in_order_and_seen_and_nothing_holds_the_focus(
    lived: Lived, width: int
) -> None:
    found, many = list[object](), 0
    for page, name in pages_of(lived, one_of_each=width < 1440):
        page.set_viewport_size({"width": width, "height": 900})
        found += [(name, each) for each in amiss(page)]
        many += 1
    lived.page.set_viewport_size({"width": 1440, "height": 900})
    assert found == []
    assert many >= len(ADDRESSES)
    assert lived.at.wrong == []


def test_what_is_not_reached_or_not_seen_or_holds_the_focus_is_found(lived: Lived) -> None:
    """The positive control."""
    page = lived.page
    spoilt = {
        "missed": "document.querySelector('main button').tabIndex = -1",
        "not seen": "document.querySelector('main button').style.outline = 'none'",
        "out of order": "document.querySelector('main input').tabIndex = 1",
    }
    for kind, how in spoilt.items():
        page.goto(lived.at.url + "/policy/explain")
        page.evaluate(f"() => {{ {how}; }}")
        assert kind in {each[0] for each in amiss(page)}, kind  # type: ignore[index]
    page.goto(lived.at.url + "/policy/explain")
    page.evaluate(
        "() => document.querySelector('textarea').addEventListener('keydown', (event) => { if (event.key === 'Tab') event.preventDefault(); })"
    )
    assert amiss(page) != []
    page.goto(lived.at.url + "/policy/explain")
    assert amiss(page) == []


class Hands:
    """On the keys, and on nothing else."""

    def __init__(self, page: Page) -> None:
        self.page = page

    def to(self, name: str) -> None:
        """By Tab, to what is called so."""
        for _ in range(400):
            self.page.keyboard.press("Tab")
            if self.page.evaluate(IS, name):
                return
        raise AssertionError(f"{name!r} is not reached at {self.page.url}")

    def press(self, name: str, key: str = "Enter") -> None:
        """As somebody does who read what stands there."""
        self.to(name)
        self.page.wait_for_timeout(READ_MS)
        self.page.keyboard.press(key)

    def twice(self, name: str) -> None:
        """Where one press is not enough."""
        self.press(name)
        self.page.wait_for_timeout(READ_MS)
        self.page.keyboard.press("Enter")

    def fill(self, name: str, text: str) -> None:
        self.to(name)
        self.page.keyboard.press("Control+A")
        self.page.keyboard.type(text)

    def go(self, name: str) -> None:
        """Through the menu."""
        self.to(name)
        self.page.keyboard.press("Enter")
        self.page.wait_for_function(
            "name => document.querySelector('nav [aria-current=page]')?.innerText.startsWith(name)"
            " && document.getElementById('line').textContent === 'Live'",
            arg=name,
        )


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("width", [1440, 390])
def test_a_day_without_a_pointer(lived: Lived, width: int) -> None:
    at = lived.at
    at.password(owner(), PASSWORD)
    page = at.tab(width=width, signed_in=False)
    hands = Hands(page)

    # Signs in with a password.
    page.goto(at.url + "/")
    page.wait_for_selector("#sign-in:not([hidden])")
    hands.fill("Who you are", owner())
    hands.fill("Password", PASSWORD)
    page.keyboard.press("Enter")
    page.wait_for_selector("#live")

    # Trusts a skill that he finds by its name.
    hands.go("Skills")
    page.keyboard.press("/")
    page.keyboard.type("new")
    page.keyboard.press("Enter")
    page.wait_for_url("**/skills?q=new*")
    hands.to("new")
    page.keyboard.press("Enter")
    page.wait_for_selector("#trust-title")
    hands.press("Trust exactly these bytes")
    told(page, "Trusted")
    done(lived.page, "skills.untrust", name="new")

    # Changes a setting.
    page.goto(at.url + "/skills/desk/settings")
    hands.fill("How often", str(width))
    hands.press("Keep what I changed")
    page.wait_for_url("**kept=true")
    assert str(width) in str(does(lived.page, "settings/desk", method="GET"))

    # Makes a token, and takes it back, which takes two presses.
    hands.go("People")
    hands.fill("For", "agent:helper")
    hands.fill("A name to know it by", f"at {width}")
    hands.press("Make it")
    page.wait_for_selector("#made:not([hidden]) >> text=metier_")
    [token] = [
        each for each in does(lived.page, "tokens", method="GET")["tokens"] if each["name"] == f"at {width}"
    ]
    hands.twice(f"Revoke the token {token['id']}")
    told(page, "Revoked")

    # Searches the record, and opens what he found.
    hands.go("Record")
    page.keyboard.press("/")
    page.keyboard.type("desk/fail")
    page.keyboard.press("Enter")
    page.wait_for_url("**text=desk*")
    hands.to(f"{owner()} ran desk/fail")
    page.keyboard.press("Enter")
    page.wait_for_selector(".story >> text=ValueError")

    # Has a call explained.
    hands.go("Policy")
    hands.to("Explain a call")
    page.keyboard.press("Enter")
    page.wait_for_url("**/policy/explain")
    hands.fill("Tool", "desk/note")
    hands.to("Explain it")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Somebody would be asked")

    # Opens a fold and closes it; switches a schedule off, or on again.
    hands.go("Schedules")
    hands.to("What it does")
    assert page.query_selector("details[open]") is None
    page.keyboard.press("Enter")
    page.wait_for_selector("details[open] pre")
    page.keyboard.press("Space")
    page.wait_for_selector("details[open]", state="detached")
    one, other = ("off", "on") if width == 1440 else ("on", "off")
    hands.press(f"Switch tea at four {one}")
    page.wait_for_selector(f"[aria-label='Switch tea at four {other}']")

    # Denies with a word what waits.
    approval = lived.asks("desk/note", {"text": f"at {width}"})
    page.goto(f"{at.url}/approvals/{approval}")
    page.wait_for_function(f"() => document.activeElement.dataset.request === '{approval}'")
    page.wait_for_timeout(READ_MS)
    page.keyboard.press("w")
    page.keyboard.type("another day")
    page.wait_for_timeout(READ_MS)
    page.keyboard.press("Enter")
    told(page, "Denied")
    assert (at.approval(approval).state, at.approval(approval).word) == ("denied", "another day")

    # Stops everything, and lets it run again.
    hands.go("Now")
    hands.to("Stop everything")
    page.keyboard.press("Enter")
    page.wait_for_selector(".banner >> text=Everything is stopped")
    hands.press("Let things run again")
    page.wait_for_selector(".banner", state="detached")
    until(lambda: not does(lived.page, "me", method="GET").get("stopped"))
    assert at.wrong == []
