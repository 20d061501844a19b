"""A real browser before a real server: `metier serve` in a process of its own, and Debian's Chromium."""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from console_kit import Console, no_chromium
from lived_in import Lived

CHROMIUM = next(
    (each for each in ("/usr/lib/chromium/chromium", shutil.which("chromium") or "") if os.path.exists(each)),
    "",
)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """One for all tests of a file, and gone after them: while it is there no other loop can run in this thread."""
    if not CHROMIUM:
        no_chromium(os.environ)
    with sync_playwright() as playwright:
        # As root, in a container, Chromium's own sandbox cannot be made; what it shows is ours.
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


@pytest.fixture
def console(chromium: Browser, tmp_path: Path) -> Iterator[Callable[..., Console]]:
    """Opens a console on a home of its own, and closes it."""
    opened: list[Console] = []

    def make(**given: object) -> Console:
        opened.append(Console(chromium, tmp_path / f"home{len(opened)}", **given))  # type: ignore[arg-type]
        return opened[-1]

    yield make
    for each in opened:
        each.close()


@pytest.fixture(scope="module")
def lived(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    """One that was lived in, for all tests of a file."""
    made = Lived(chromium, tmp_path_factory.mktemp("lived") / "home")
    yield made
    made.close()
