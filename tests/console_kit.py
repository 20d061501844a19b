"""An operator before his console: a server of its own process on a home of its own, and a tab of a real browser that remembers
everything that went wrong in it."""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request

from metier.catalog.here import owner
from metier.config.load import load
from metier.doors.http import passwords
from metier.model.approval import Approval
from metier.record.approvals import find
from metier.record.credentials import set_credential
from metier.record.database import Database

PROJECT = Path(__file__).parent.parent
SHOTS = PROJECT / "build" / "screenshots"
METIER = [sys.executable, "-m", "metier"]
COLOURS = ["color-contrast", "link-in-text-block"]
"""What axe-core says about colours, as far as it is for everybody."""
READ_MS = 900
"""So long a person looks at least before a key counts."""
SKILL = """---
name: noter
version: 1.0.0
description: Keep a note. Use when somebody wants something written down.
metadata:
  metier:
    settings:
      type: object
      properties:
        prefix: {type: string, title: Prefix, description: Stands before every note, default: note}
        key: {type: string, title: Key, x-secret: true}
    tools:
      - name: note
        description: Keep a note.
        parameters:
          type: object
          properties: {text: {type: string, maxLength: 2000}}
          required: [text]
        effect: act
        risk: medium
        approval: always
        entry: {kind: python, path: note.py, function: note}
---
Keep notes short.
"""
CODE = "def note(params):\n    return {'kept': params['text'].upper()}\n"


class Console:
    """Signed in as the owner, unless told otherwise."""

    def __init__(
        self, browser: Browser, home: Path, *, prepare: Callable[[Path], None] | None = None
    ) -> None:
        self.home = home
        (home / ".metier").mkdir(parents=True, mode=0o700)
        self.browser = browser
        self.contexts: list[BrowserContext] = []
        self.wrong: list[str] = []
        """What a browser complained of: scripts that broke, what its policy forbade, requests to somewhere else."""
        if prepare is not None:
            prepare(home)
        self._serving = self._start(0)
        self.url, self.link = self._told()

    @property
    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LANG") if name in os.environ}
        return {**kept, "HOME": str(self.home), "PYTHONDONTWRITEBYTECODE": "1"}

    def _start(self, port: int) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [*METIER, "serve", "--port", str(port)],
            cwd=self.home,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def _told(self) -> tuple[str, str]:
        assert self._serving.stdout is not None
        said = ""
        for line in self._serving.stdout:
            said += line
            if found := re.search(r"http://\S+#token=\S+", line):
                url = found[0].partition("/#")[0]
                return url, found[0]
        raise AssertionError(f"it does not serve: {said}")

    def metier(self, *arguments: str, given: str = "") -> str:
        """A command at the terminal of the same machine."""
        done = subprocess.run(
            [*METIER, *arguments],
            cwd=self.home,
            env=self.environment,
            input=given,
            capture_output=True,
            text=True,
            timeout=50,
        )
        return done.stdout + done.stderr

    def approval(self, id: str) -> Approval:
        """A request as it stands."""
        with self._state() as database:
            found = find(database, id)
        assert found is not None
        return found

    def asked_at(self, approval: str) -> float:
        """When a request was put on the record, in seconds."""
        return datetime.fromisoformat(self.approval(approval).asked_at).timestamp()

    def password(self, who: str, password: str) -> None:
        """Somebody can sign in with it."""
        with self._state() as database:
            body = passwords.hashed(password)
            me = owner()
            assert (
                set_credential(database, "password", name=who, principal=who, body=body, by=me, owner=me)
                == ""
            )

    def _state(self) -> Database:
        return Database.open(load(home=str(self.home / ".metier"), project=str(self.home)).database)

    def stop(self) -> None:
        """The server goes away, the tabs stay."""
        self._serving.terminate()
        self._serving.wait(20)
        assert self._serving.stdout is not None
        self._serving.stdout.close()

    def start_again(self) -> None:
        """At the same address."""
        self._serving = self._start(int(self.url.rpartition(":")[2]))
        self.url, self.link = self._told()

    def tab(self, *, width: int = 1440, scheme: Any = "light", signed_in: bool = True) -> Page:
        """A new window, of a browser that knows nothing yet."""
        context = self.browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        self.contexts.append(context)
        page = self.another(context)
        if signed_in:
            page.goto(self.link if not hasattr(self, "_used") else self.new_link())
            self._used = True
            page.wait_for_selector("#live")
        return page

    def another(self, context: BrowserContext) -> Page:
        """One more tab of the same window."""
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("console", self._complained)
        page.on("pageerror", lambda error: self.wrong.append(f"a script broke: {error}"))
        page.on("request", self._asked)
        return page

    def new_link(self) -> str:
        """As `metier sign-in` prints it."""
        found = re.search(r"http://\S+#token=\S+", self.metier("sign-in"))
        assert found is not None
        return found[0]

    def _complained(self, message: ConsoleMessage) -> None:
        # A status that the page itself deals with is no complaint: who is not signed in yet is answered 401.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            self.wrong.append(message.text)

    def _asked(self, request: Request) -> None:
        if not request.url.startswith((self.url + "/", "blob:" + self.url, "data:")):
            self.wrong.append(f"a request left the origin: {request.url}")

    def close(self) -> None:
        """Whatever is still open."""
        for context in self.contexts:
            context.close()
        if self._serving.poll() is None:
            self.stop()


def no_chromium(environ: Mapping[str, str]) -> NoReturn:
    """What its lack means: whoever has none can do without these tests, but a run that stands for all of them cannot."""
    if environ.get("CI"):
        pytest.fail("Chromium is not installed, and without it nothing of the console was looked at")
    pytest.skip("Chromium is not installed here (apt-get install chromium)")


def shot(page: Page, name: str) -> None:
    """A picture, kept as build output."""
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png", full_page=True)


def serious(page: Page, *, colours: bool = False) -> list[str]:
    """What axe-core finds on this page that keeps people from using it; with `colours` only what lies in its colours, which is all that
    another scheme of them changes."""
    options = {"resultTypes": ["violations"], **({"runOnly": COLOURS} if colours else {})}
    if not page.evaluate("typeof axe === 'object'"):
        page.evaluate(Axe().axe_script)
    found = page.evaluate("async (options) => (await axe.run(options)).violations", options)
    return [
        f"{each['id']}: {each['help']}: {[node['html'][:160] for node in each['nodes'][:3]]}"
        for each in found
        if each["impact"] in ("serious", "critical")
    ]


def until(holds: Callable[[], bool], seconds: float = 10.0) -> float:
    """How long it took."""
    began = time.monotonic()
    while not holds():
        assert time.monotonic() - began < seconds, "it did not come about"
        time.sleep(0.02)
    return time.monotonic() - began


def told(page: Page, words: str) -> None:
    """Until the page says this."""
    page.wait_for_function("words => document.getElementById('told').textContent.includes(words)", arg=words)


def press(page: Page, selector: str) -> None:
    """As somebody does who read what stands there."""
    page.wait_for_timeout(READ_MS)
    page.click(selector)


def listening(page: Page) -> None:
    """Until it is told of what happens."""
    page.wait_for_function("() => document.getElementById('line').textContent === 'Live'")


def ask(at: Console, content: str = "tea", path: str = "out/tea.txt") -> str:
    """An agent asks for something; the id of its request."""
    call = {"path": path, "content": content, "overwrite": True}
    said = at.metier("call", "fs_write", json.dumps(call), "--json")
    found = re.search(r"apr_[0-9a-f]+", said)
    assert found is not None, said
    return found[0]


def noter(home: Path) -> None:
    """A skill of the project that keeps notes, has settings, and whose tool asks every time."""
    folder = home / "skills" / "noter"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text(SKILL, encoding="utf-8")
    (folder / "note.py").write_text(CODE, encoding="utf-8")
