"""The pages about skills on a phone, by day and by night, and a skill that lives from its start to its end."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page

from console_kit import Console, press, serious, told
from household import KETTLE
from machine import write_skill

Opens = Callable[..., Console]
ARGUMENTS: dict[str, Any] = {
    "place": {"type": "string", "title": "Place", "minLength": 2, "maxLength": 40, "pattern": "^[a-z]+$"},
    "many": {"type": "integer", "minimum": 1, "maximum": 5},
    "mode": {"enum": ["slow", "fast"]},
    "hot": {"type": "boolean"},
    "guests": {"type": "array", "items": {"type": "string"}},
    "rows": {"type": "array", "items": {"type": "object"}},
}
SETTINGS: dict[str, Any] = {
    **ARGUMENTS,
    "key": {"type": "string", "x-secret": True},
    "deep": {"properties": {"er": {}}},
}
NAMELESS = """() => [...document.querySelectorAll("#live :is(input:not([type=hidden]), select, textarea)")]
  .filter((each) => ![...each.labels].some((label) => label.textContent.trim())).map((each) => each.outerHTML)"""


def skills(home: Path) -> None:
    """One with everything, one that lacks something and waits, and one whose name no address can have."""
    tool = {
        "name": "pour",
        "description": "Pour tea.",
        "parameters": {"type": "object", "properties": ARGUMENTS, "required": ["place"]},
        "entry": {"kind": "python", "path": "pour.py", "function": "pour"},
    }
    schema = {"type": "object", "properties": SETTINGS, "required": ["place"]}
    about = {"metier": {"settings": schema, "tools": [tool]}}
    pot = write_skill(home / ".metier" / "skills" / "pot", metadata=json.dumps(about))
    (pot / "pour.py").write_text("def pour(params):\n    return {}\n", encoding="utf-8")
    (pot / f"{'a-rather-long-name-' * 5}.md").write_text("x", encoding="utf-8")
    needs = {
        "openclaw": {"requires": {"bins": ["kettle-ctl"]}, "install": [{"kind": "brew", "formula": "k"}]}
    }
    write_skill(home / "skills" / "tea", description="Tea. " * 80, metadata=json.dumps(needs))
    write_skill(home / "skills" / f"Bad {'Name' * 20}!")


def kettle(home: Path) -> None:
    """A package that can live, and that asks for nothing."""
    folder = home / "packages" / "kettle"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(KETTLE.replace("['locks.open']", "[]"), encoding="utf-8")
    wanted = {"allow": ["kettle"], "enabled": [], "resolve": {"local_paths": ["packages/kettle"]}}
    (home / "agent.config.json").write_text(json.dumps({"skills": wanted}), encoding="utf-8")


def stands(page: Page) -> str:
    return page.inner_text("#stands-title").removeprefix("How it stands: ")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_page_about_skills_can_be_read_on_a_phone_and_every_field_has_a_name(
    console: Opens, scheme: str
) -> None:
    at = console(prepare=skills)
    page = at.tab(width=390, scheme=scheme)
    for path in ("/skills", "/skills/tea", "/skills/pot/settings", "/skills/pot/try", "/skills/pot/files"):
        page.goto(at.url + path)
        page.wait_for_selector("#live")
        assert not page.evaluate("() => document.documentElement.scrollWidth > innerWidth"), path
        assert page.evaluate(NAMELESS) == [], path
        assert serious(page) == [], path
    assert at.wrong == []


def test_what_is_needed_and_its_bounds_are_part_of_what_a_field_is_called_and_described_by(
    console: Opens,
) -> None:
    at = console(prepare=skills)
    page = at.tab()
    for path in ("/skills/pot/settings", "/skills/pot/try"):
        page.goto(at.url + path)
        place = page.get_by_label("place (needed)")
        assert place.count() == 1, path
        described = page.inner_text("#" + (place.get_attribute("aria-describedby") or ""))
        assert "at most 40 characters" in described and "fits the pattern ^[a-z]+$" in described


def test_a_skill_that_lives_is_started_and_ended_on_its_page_which_then_says_so(console: Opens) -> None:
    at = console(prepare=kettle)
    at.metier("skills", "trust", "kettle", "--yes")
    page = at.tab()
    page.goto(at.url + "/skills/kettle")
    assert stands(page) == "not started"
    press(page, "text=Start it, now")
    page.wait_for_function("() => !['', 'Asked…'].includes(document.getElementById('told').textContent)")
    if page.query_selector("text=Trust exactly"):  # it was never run, so what it tells is read first
        press(page, "text=Trust exactly")
        told(page, "Trusted")
    page.wait_for_selector("button:has-text('End it, and')", timeout=40_000)
    assert stands(page) == "can be used"
    press(page, "text=End it, and do not")
    told(page, "It was ended.")
    page.wait_for_selector("text=Start it, now")
    assert stands(page) == "not started"
    assert "✗ kettle" in at.metier("skills", "list")
