"""What skills and strangers say is text on every page: nothing of it runs, nothing of it moves the rest, and what cannot be seen is spelled
out."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Page

from console_kit import Console, until
from naughty import NAUGHTY

Opens = Callable[..., Console]
RUNS = (
    "<img src=x onerror='window.pwned=1'>",
    "<svg onload='window.pwned=1'></svg>",
    "<details open ontoggle='window.pwned=1'>x</details>",
    "<iframe srcdoc='&lt;script&gt;parent.pwned=1&lt;/script&gt;'></iframe>",
    "<style onload='window.pwned=1'></style>",
    "<input autofocus onfocus='window.pwned=1'>",
)
"""Each runs by itself where it is taken for markup."""
BREAKS_OUT = (
    "</pre></bdi></dd></dl></main><img src=x onerror='window.pwned=1'>",
    "\"><img src=x onerror='window.pwned=1'>",
    "'><img src=x onerror='window.pwned=1'>",
    "--><img src=x onerror='window.pwned=1'>",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:window.pwned=1",
    "<a href='javascript:window.pwned=1' id=pwned>x</a>",
    "<form data-post=/api/v1/modules/runtime/stop><button id=pwned>x</button></form>",
    "<div hx-get=/api/v1/me hx-trigger=load id=pwned>x</div>",
    "<base href=//elsewhere.example>",
    "<meta http-equiv=refresh content='0;url=//elsewhere.example'>",
)
TURNED = "safe\u202etxt.exe\u202c \u200bhidden \u2066x\u2069"
LONG = "w" * 3_000
SAID = [*RUNS, *BREAKS_OUT, TURNED, LONG, *(each for kind in NAUGHTY.values() for each in kind)]
TEXT = "\n".join(each.encode("utf-8", "replace").decode().replace("\x00", "") for each in SAID)


def hostile(home: Path) -> None:
    """Skills of somebody who means ill: in their descriptions, instructions, file names, tools and settings."""
    for number, said in enumerate((*RUNS, *BREAKS_OUT, TURNED)):
        folder = home / ".metier" / "skills" / f"ill-{number:02}"
        folder.mkdir(parents=True)
        about = {
            "tools": [
                {
                    "name": "go",
                    "description": said,
                    "parameters": {
                        "type": "object",
                        "properties": {
                            "text": {
                                "type": "string",
                                "title": said,
                                "description": said,
                                "enum": [said, "b"],
                            }
                        },
                    },
                    "effect": "act",
                    "entry": {"kind": "python", "path": "go.py"},
                }
            ],
            "settings": {
                "type": "object",
                "properties": {
                    "one": {"type": "string", "title": said, "description": said, "default": said}
                },
            },
        }
        head = f"---\nname: ill-{number:02}\ndescription: {json.dumps(said)}\nversion: {json.dumps(said[:40])}\nmetadata: {json.dumps({'metier': about})}\n---\n"
        (folder / "SKILL.md").write_text(head + TEXT, encoding="utf-8")
        (folder / "go.py").write_text(
            f"def go(arguments, context=None):\n    print({said!r})\n    raise ValueError({said!r})\n",
            encoding="utf-8",
        )
        for each in (said, TURNED):
            (folder / each.replace("/", "_")[:80]).write_text(said, encoding="utf-8")
    for name in ("<img src=x onerror=window.pwned=1>", TURNED):
        folder = home / ".metier" / "skills" / name
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(
            f"---\nname: {json.dumps(name)}\ndescription: x\n---\n", encoding="utf-8"
        )


def untouched(at: Console, page: Page, path: str) -> None:
    """Nothing ran, nothing was taken for markup, nothing lies beside the page, nothing unseen is left."""
    assert page.evaluate("window.pwned") is None, path
    assert page.query_selector("#pwned, iframe, base, main img, main style, meta[http-equiv]") is None, path
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
    text = page.evaluate("document.body.innerText")
    assert not {"\u202e", "\u200b", "\u2066"} & set(text), path
    assert at.wrong == [], path


@pytest.mark.slow
def test_without_escaping_each_of_these_runs(console: Opens) -> None:
    """The positive control: as markup, and without our policy, they do what they are there for."""
    at = console()
    for said in RUNS:
        page = at.browser.new_context().new_page()
        page.set_content(f"<p>{said}</p>")
        until(lambda page=page: page.evaluate("window.pwned") == 1)
        page.context.close()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_web_06_what_a_hostile_skill_says_is_text_on_every_page(console: Opens) -> None:
    at = console(prepare=hostile)
    page = at.tab()
    at.metier("skills", "trust", "--all", "--yes")
    for said in (*RUNS[:2], *BREAKS_OUT[:3], TURNED, LONG):
        at.metier("call", "fs_write", json.dumps({"path": "out/x.txt", "content": said, "overwrite": True}))
    at.metier("call", "ill-00/go", json.dumps({"text": RUNS[0]}))
    at.metier("principals", "add", "agent:helper")
    at.metier("tokens", "add", "agent:helper", "--scope", "skills:execute", "--name", BREAKS_OUT[1])
    at.metier("stop", "--why", RUNS[0] + TURNED)
    seen: set[str] = set()
    queue = [
        "/",
        "/approvals",
        "/approvals?over=true",
        "/skills",
        "/record",
        "/policy",
        "/usage",
        "/people",
        "/channels",
        "/schedules",
    ]
    while queue and len(seen) < 90:
        path = queue.pop(0)
        if path in seen:
            continue
        seen.add(path)
        page.goto(at.url + path)
        page.wait_for_selector("#live")
        untouched(at, page, path)
        for each in page.query_selector_all("main a[href]"):
            href = each.get_attribute("href") or ""
            assert href.startswith(("/", "#")), (path, href)
            if href.startswith("/skills/ill-00") or (
                href.startswith(("/approvals/", "/record/")) and len(seen) < 40
            ):
                queue.append(href)
    assert any(each.startswith("/skills/ill-00") for each in seen) and any(
        "files" in each for each in seen
    ), seen
    assert "\\u{202e}" in page_text(page, at.url + "/approvals")


def page_text(page: Page, url: str) -> str:
    page.goto(url)
    page.wait_for_selector("#live")
    return str(page.evaluate("document.body.innerText"))
