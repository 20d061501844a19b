"""Every page of the console in a real browser: usable by everybody, by keyboard, at every width, and within its policy."""

import re
from collections.abc import Callable

import pytest
from playwright.sync_api import Page

from console_kit import Console, ask, noter, serious, shot

PAGES = [
    "/",
    "/approvals",
    "/approvals?over=true",
    "/approvals/{approval}",
    "/approvals/{approval}?scope=always",
    "/skills",
    "/skills/noter",
    "/skills/noter/settings",
    "/skills/noter/files",
    "/skills/noter/try",
    "/record",
    "/record/1",
    "/record/calls/{call}",
    "/policy",
    "/policy/explain?tool=fs_write",
    "/policy/replay?now=true",
    "/usage",
    "/people",
    "/channels",
    "/schedules",
]
Opens = Callable[..., Console]
CONTROLS = """() => {
  const all = [...document.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex='0']")];
  window.controls = all.filter((each) => !each.disabled && each.checkVisibility({ visibilityProperty: true }));
  document.querySelector(".skip").focus();
  return window.controls.map((each) => each.outerHTML.slice(0, 120));
}"""
FOCUSED = """() => {
  const here = document.activeElement;
  const style = getComputedStyle(here);
  const { top, bottom, left, right } = here.getBoundingClientRect();
  return {
    at: window.controls.indexOf(here),
    what: here.outerHTML.slice(0, 120),
    framed: style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 1,
    there: bottom > 0 && top < innerHeight && right > 0 && left < innerWidth,
  };
}"""


def lived_in(at: Console) -> list[str]:
    """Something of everything there is; the addresses of all pages."""
    at.metier("skills", "trust", "noter", "--yes")
    at.metier("principals", "add", "agent:helper")
    at.metier("tokens", "add", "agent:helper", "--scope", "skills:execute", "--name", "the helper")
    at.metier("approvals", "deny", ask(at, path="out/1.txt"), "--word", "not today")
    approval = ask(at, "tea\n" * 60)
    call = at.approval(approval).call_id
    return [each.format(approval=approval, call=call) for each in PAGES]


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_axe_finds_nothing_serious_on_any_page_wide_and_light_or_narrow_and_dark(console: Opens) -> None:
    at = console(prepare=noter)
    paths = lived_in(at)
    for width, scheme in ((1440, "light"), (390, "dark")):
        page = at.tab(width=width, scheme=scheme)
        for path, name in zip(paths, PAGES, strict=True):
            page.goto(at.url + path)
            page.wait_for_selector("#live")
            assert serious(page) == [], (path, width, scheme)
            assert fits(page), (path, width)
            shot(page, f"{re.sub('[^a-z0-9]+', '-', name).strip('-') or 'now'}-{width}-{scheme}")
    assert at.wrong == []


def fits(page: Page) -> bool:
    """Whether nobody has to scroll to the side."""
    return page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_every_control_of_every_page_is_reached_by_tab_in_order_and_seen_and_nothing_holds_the_focus(
    console: Opens,
) -> None:
    at = console(prepare=noter)
    page = at.tab()
    for path in lived_in(at):
        page.goto(at.url + path)
        page.wait_for_selector("#live")
        page.wait_for_load_state()
        controls: list[str] = page.evaluate(CONTROLS)
        reached = [0]
        for _ in range(len(controls) * 4):  # a date is three fields and a button in one control
            page.keyboard.press("Tab")
            now = page.evaluate(FOCUSED)
            if now["at"] < 0 or (now["at"] == 0 and len(reached) > 1):  # past the last one, and around
                break
            assert now["framed"] and now["there"], (path, now)
            if now["at"] != reached[-1]:
                reached.append(now["at"])
        missed = [each for number, each in enumerate(controls) if number not in reached]
        assert reached == list(range(len(controls))), (path, missed, reached)
    assert at.wrong == []
