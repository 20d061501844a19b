"""What skills and strangers say is text on every page: nothing of it runs, nothing of it moves the rest, and what cannot be seen is spelled
out."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Dialog, Page

from console_kit import press, shot, until
from lived_in import ADDRESSES, Lived, does, skill
from naughty import NAUGHTY

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
    "\"><img src=x onerror='window.pwned=1'>",
    "'><img src=x onerror='window.pwned=1'>",
    "--><img src=x onerror='window.pwned=1'>",
    "</pre></bdi></dd></dl></main><img src=x onerror='window.pwned=1'>",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:window.pwned=1",
    "<a href='javascript:window.pwned=1' id=pwned>x</a>",
    "<form data-post=/api/v1/modules/runtime/stop><button id=pwned>x</button></form>",
    "<div hx-get=/api/v1/me hx-trigger=load id=pwned>x</div>",
    "<base href=//elsewhere.example>",
    "<meta http-equiv=refresh content='0;url=//elsewhere.example'>",
    "<script>alert(1); window.pwned=1</script>",
)
TURNED = "safe\u202etxt.exe\u202c \u200bhidden \u2066x\u2069"
STACKED = "Z" + "\u0351\u036b\u0343\u036a\u0302\u033d\u0327\u0321" * 8
LONG = "w" * 3_000
ILL = (RUNS[0], TURNED, *BREAKS_OUT[:2], STACKED, *RUNS[1:], *BREAKS_OUT[2:], "x" * 60)
"""Where little of it is taken, the first ones are what matters."""
SPELLED = ("\\u{202e}", "\\u{200b}", "\\u{2066}")
"""What `TURNED` is to be read as."""
MORE = tuple(
    dict.fromkeys(
        each.encode("utf-8", "replace").decode()[:3_000] for kind in NAUGHTY.values() for each in kind if each
    )
)
TEXT = "\n".join([*ILL, LONG, *MORE])
SILENT = {
    *("/around", "/skills?q=nothing+of+the+kind", "/record?text=nothing+of+the+kind", "/record/1", "/policy/explain"),
    *("/policy/replay", "/policy/replay?now=true", "/usage", "/channels/threads/999999", "/record", "/record/{seq}"),
    *("/approvals/{granted}", "/skills/desk/files"),
}  # fmt: skip
"""Where nothing of a stranger's words is to be shown."""
AMISS = r"""() => {
  const found = [];
  const unseen = /[\p{Cf}\p{Cs}\p{Zl}\p{Zp}\u0000-\u0008\u000b-\u001f\u007f-\u009f\u115f\u1160\u2800\u3164\uffa0\u034f]|\p{M}{5}/u;
  const joined = (text) => text.replace(/(?<=\p{Extended_Pictographic}\ufe0f?)\u200d(?=\p{Extended_Pictographic})/gu, "");
  const hides = (text) => unseen.test(joined(text));
  if (window.pwned !== undefined) found.push("a script ran");
  const made = "#pwned, iframe, frame, object, embed, base, meta[http-equiv], main :is(img, style, script, link), svg:not([class])";
  for (const each of document.querySelectorAll(made)) found.push("made of a text: " + each.outerHTML.slice(0, 80));
  for (const each of document.querySelectorAll("[hx-get]:not(#live, #around)")) found.push("fetches by itself: " + each.outerHTML.slice(0, 80));
  for (const each of document.querySelectorAll("*")) {
    for (const { name, value } of each.attributes) {
      if (name.startsWith("on")) found.push("a handler: " + each.outerHTML.slice(0, 80));
      if (["href", "src", "action", "formaction", "data-post", "data-go"].includes(name) && !/^(\/(?!\/)|#|$)/.test(value)) {
        found.push("leads elsewhere: " + each.outerHTML.slice(0, 120));
      }
      if (hides(value)) found.push("unseen in " + name + ": " + each.outerHTML.slice(0, 80));
    }
    if (each.value && typeof each.value === "string" && hides(each.value)) found.push("unseen in a field: " + each.outerHTML.slice(0, 80));
  }
  for (const text of [document.body.innerText, document.title]) if (hides(text)) found.push("unseen in the text: " + escape(unseen.exec(joined(text))[0]));
  return [...new Set(found)];
}"""
LAID = r"""() => {
  const found = [];
  const { scrollWidth } = document.documentElement;
  if (scrollWidth > innerWidth + 1) found.push("wider than the window: " + scrollWidth);
  for (const card of document.querySelectorAll(".card, .banner, header")) {
    const outer = card.getBoundingClientRect();
    if (!outer.height) continue;
    const walker = document.createTreeWalker(card, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const range = document.createRange();
      range.selectNodeContents(walker.currentNode);
      let box = range.getBoundingClientRect();
      if (!box.width || walker.currentNode.parentElement.closest(".away, option")) continue;
      for (let each = walker.currentNode.parentElement; each !== card; each = each.parentElement) {
        if (getComputedStyle(each).overflowX !== "visible") box = each.getBoundingClientRect(); // it is moved within that
      }
      if (box.left < outer.left - 1 || box.right > outer.right + 1 || box.top < outer.top - 1 || box.bottom > outer.bottom + 1) {
        found.push("outside of its card: " + walker.currentNode.data.trim().slice(0, 60));
      }
    }
  }
  return found;
}"""
UNFOLDED = "() => document.querySelectorAll('details').forEach((each) => { each.open = true; })"


def hostile(home: Path) -> None:
    """Skills of somebody who means ill: in their descriptions, instructions, names and file names, tools and settings."""
    for number, said in enumerate((*ILL, LONG)):
        takes = {
            "type": "object",
            "properties": {"text": {"type": "string", "title": said, "enum": [said, "b"]}},
        }
        entry = {"kind": "python", "path": "go.py"}
        about = {
            "tools": [
                {"name": "go", "description": said, "parameters": takes, "effect": "act", "entry": entry}
            ]
        }
        more = {
            "version": said[:40],
            "license": said,
            "homepage": "javascript:window.pwned=1",
            "compatibility": said,
        }
        name = f"ill-{number:02}"
        folder = skill(
            home, name, {"name": name, "description": said, **more, "metadata": {"metier": about}}, TEXT
        )
        (folder / "go.py").write_text("def main(params):\n    return params\n", encoding="utf-8")
        for each in (*ILL, *MORE) if not number else (said, TURNED):
            try:
                (folder / each.replace("/", "_")[:80]).write_text(said, encoding="utf-8")
            except (OSError, ValueError):
                continue  # what no file can be called
    for name in (RUNS[0].replace("/", "_"), TURNED):
        skill(home, name, {"name": name, "description": "x"}, "")


@pytest.fixture(scope="module")
def house(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lived]:
    """In which every word is somebody's ill will."""
    made = Lived(chromium, tmp_path_factory.mktemp("ill") / "home", ILL, MORE, hostile)
    made.page.on("dialog", lambda dialog: refuse(made, dialog))
    yield made
    made.close()


def refuse(house: Lived, dialog: Dialog) -> None:
    house.at.wrong.append(f"a dialog: {dialog.message}")
    dialog.dismiss()


def seen(page: Page) -> str:
    """All that stands on the page, also in its fields."""
    fields = "[...document.querySelectorAll('input:not([type=hidden]), textarea, option')].map((each) => each.text ?? each.value)"
    return str(page.evaluate(f"() => [document.body.innerText, ...{fields}].join('\\n')"))


def amiss(house: Lived, where: str) -> list[object]:
    """What a page lets a text do, and what of it does not hold, wide and narrow."""
    page = house.page
    page.evaluate(UNFOLDED)
    found: list[object] = [(where, each) for each in page.evaluate(AMISS)]
    for width in (
        (1440, 390) if page.query_selector("#live") else ()
    ):  # a part by itself is laid out by nobody
        page.set_viewport_size({"width": width, "height": 900})
        found += [(where, width, each) for each in page.evaluate(LAID)]
    page.set_viewport_size({"width": 1440, "height": 900})
    return found


@pytest.mark.slow
def test_without_escaping_each_of_these_runs(chromium: Browser) -> None:
    """The positive control: as markup, and without our policy, they do what they are there for."""
    context = chromium.new_context()
    for said in RUNS:
        page = context.new_page()
        page.set_content(f"<p>{said}</p>")
        until(lambda page=page: page.evaluate("window.pwned") == 1)
    context.close()


def test_what_a_text_may_not_do_is_found_where_it_is_done(house: Lived) -> None:
    """The positive control: each of these is on a page of the console for once."""
    page = house.page
    page.goto(house.at.url + "/usage")
    assert amiss(house, "") == []
    card = "const card = document.querySelector('.card');"
    for done, said in (
        ("window.pwned = 1", "a script ran"),
        ("document.body.append(Object.assign(document.createElement('p'), { id: 'pwned' }))", "made of a text"),
        ("document.querySelector('main').append(document.createElement('img'))", "made of a text"),
        ("document.querySelector('a.mark').setAttribute('href', 'javascript:x')", "leads elsewhere"),
        ("document.querySelector('a.mark').setAttribute('href', 'data:text/html,x')", "leads elsewhere"),
        ("document.querySelector('a.mark').setAttribute('href', '//elsewhere.example')", "leads elsewhere"),
        ("document.querySelector('main').setAttribute('hx-get', '/')", "fetches by itself"),
        ("document.querySelector('h1').textContent += '\\u202e'", "unseen in the text"),
        ("document.querySelector('h1').textContent += 'e' + '\\u0301'.repeat(40)", "unseen in the text"),
        ("document.querySelector('h1').title = '\\u200b'", "unseen in title"),
        ("document.querySelector('input').type = 'text'; document.querySelector('input').value = '\\u2066'", "unseen in a field"),
        ("document.querySelector('h1').style.width = '2000px'", "wider than the window"),
        (card + "const p = card.appendChild(document.createElement('p')); p.textContent = 'x'; p.style.marginLeft = '-3em'", "outside"),
        (card + "card.style.height = '3em'", "outside of its card"),
    ):  # fmt: skip
        page.goto(house.at.url + "/usage")
        page.evaluate(f"() => {{ {done}; }}")
        assert said in str(amiss(house, "")), done
    page.goto(house.at.url + "/usage")
    page.evaluate("() => void setTimeout(() => alert(1))")
    until(lambda: page.evaluate("1") == 1 and "a dialog: 1" in house.at.wrong)
    house.at.wrong.clear()


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_web_06_what_a_hostile_skill_says_is_text_on_every_page(house: Lived) -> None:
    at, page = house.at, house.page
    found, silent = list[object](), set[str]()
    names = [each for several in ADDRESSES.values() for each in several]
    for address, name in zip(house.addresses(), names, strict=True):
        page.goto(at.url + address)
        found += amiss(house, name)
        if not any(each in seen(page) for each in (*SPELLED, RUNS[0])):
            silent.add(name)
    assert found == []
    assert at.wrong == []
    assert silent == SILENT


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_web_06_names_files_and_addresses_of_strangers_are_text(house: Lived) -> None:
    at, page = house.at, house.page
    page.goto(at.url + "/skills")
    pages = int(
        page.evaluate(
            "() => Number((document.querySelector('.pages span')?.innerText ?? '1').split(' ').at(-1))"
        )
    )
    ill = [f"/skills/ill-{number:02}" for number in range(len(ILL) + 1)]
    page.goto(at.url + ill[0] + "/files")
    files = page.evaluate(
        "() => [...document.querySelectorAll('main td a')].map((each) => each.getAttribute('href'))"
    )
    assert len(files) >= 50
    said = quote(RUNS[0] + TURNED)
    found = list[object]()
    for address in (
        *(f"/skills?page={number}" for number in range(1, pages + 1)),
        *ill,
        *(each + "/try" for each in ill[:3]),
        ill[0] + "/files",
        *files[:4],
        *(f"/nosuch/{said}", f"/skills/{said}", f"/skills/ill-00/files?path={said}", f"/record/calls/{said}", f"/approvals/{said}"),
        *(f"/record?text={said}&since={said}", f"/record?principal={said}", f"/skills?q={said}&status={said}", f"/usage?since={said}"),
        *(f"/policy/explain?tool={said}&who={said}&arguments={said}", f"/policy/replay?now=true&since={said}"),
        f"/policy/explain?tool=desk/note&arguments={quote(json.dumps({TURNED: RUNS[0], 'text': TURNED}))}",
        *(f"/channels/threads/{said}", f"/skills/desk/try?tool={said}", f"/approvals/{house.place['pending']}?scope=always&days={said}"),
    ):  # fmt: skip
        page.goto(at.url + address)
        found += amiss(house, address[:60])
    assert found == []
    assert at.wrong == []


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_web_06_what_a_script_puts_on_the_page_is_text_too(house: Lived) -> None:
    """What a tool gives, how it fails, what it prints and leaves, as the page shows it to who tries it."""
    at, page = house.at, house.page
    found = list[object]()
    for tool, word in (("tell", "It ended well"), ("fail", "Not done"), ("leave", "It ended well")):
        page.goto(f"{at.url}/skills/desk/try?tool=desk/{tool}")
        press(page, "text=Call it")
        page.wait_for_selector(f"#told >> text={word}")
        page.wait_for_selector("#came:not([hidden])")
        found += amiss(house, tool)
        came = page.inner_text("#came")
        assert RUNS[0] in came, came
        assert SPELLED[0] in came or tool == "leave", came  # no file is kept under such a name
        shot(page, f"hostile-{tool}-1440-light")
    page.goto(at.url + "/policy/replay")
    rule = '[[rule]]\ndecision = "deny"\ntool = "desk/tell"\nbecause = ' + json.dumps(RUNS[0])
    page.fill("textarea", rule + "\n" + TURNED)
    press(page, "text=Replay with these")
    page.wait_for_selector("#tried:not([hidden])")
    found += [
        each for each in amiss(house, "wrong rules") if "in a field" not in str(each)
    ]  # what he typed is his
    page.goto(at.url + "/people")
    page.fill("form[data-post$='principals/add'] input[name=id]", "agent:" + RUNS[0] + TURNED)
    press(page, "form[data-post$='principals/add'] button")
    page.wait_for_selector("#told >> text=is no id")
    found += [each for each in amiss(house, "no id") if "in a field" not in str(each)]
    assert SPELLED[0] in at.metier("calls", "log", str(house.place["told"]))  # which no page shows
    page.goto(at.url + "/approvals")
    page.fill("[data-word]", RUNS[0] + TURNED)
    press(page, "[data-decide=deny]")
    page.wait_for_selector("#told >> text=Denied")
    page.goto(f"{at.url}/approvals/{house.place['pending']}")
    assert RUNS[0] + "safe\\u{202e}txt.exe" in page.inner_text("main")
    found += amiss(house, "a word")
    page.goto(at.url + "/people")
    does(page, "modules/runtime/stop", {"why": (RUNS[0] + TURNED)[:200]})
    for address in ("/", "/around", "/usage"):
        page.goto(at.url + address)
        page.wait_for_selector(".banner >> text=safe")
        assert RUNS[0] + "safe\\u{202e}" in page.inner_text(".banner")
        found += amiss(house, "stopped: " + address)
    assert found == []
    assert at.wrong == []
