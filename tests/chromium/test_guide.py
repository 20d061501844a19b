"""Somebody new: the first three steps, by hand and by key; and what he is given once he can take along."""

from collections.abc import Callable

import pytest

from console_kit import READ_MS, Console, noter, press, shot, told

Opens = Callable[..., Console]


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1440, "dark"), (390, "light")])
def test_the_three_steps_of_the_guide_are_walked_to_their_end(
    console: Opens, width: int, scheme: str
) -> None:
    at = console(prepare=noter)
    page = at.tab(width=width, scheme=scheme)
    assert "Three steps" in page.inner_text("main")
    page.click("text=/of yours waits? for it/")
    page.click("main >> text=noter")
    press(page, "text=Trust exactly these bytes")
    told(page, "Trusted")
    page.click("nav >> text=Now")
    press(page, "text=Ask to write out/hello.txt")
    told(page, "waits for somebody")
    page.wait_for_function("() => document.activeElement.dataset.request")  # what has just come has the frame
    shot(page, f"guide-3-{width}-{scheme}")
    for _ in range(6):
        page.wait_for_timeout(READ_MS)
        page.keyboard.press("a")
        page.wait_for_timeout(300)
        if "Approved" in page.inner_text("#told"):
            break
    told(page, "It ran, and ended well")
    page.wait_for_selector("text=Three steps", state="detached")
    assert (
        at.home / ".metier" / "workspace" / "out" / "hello.txt"
    ).read_text() == "Hello from the console.\n"
    assert at.wrong == []


@pytest.mark.slow
def test_a_new_token_can_be_copied_and_is_not_left_standing_when_it_is_revoked(console: Opens) -> None:
    at = console()
    at.metier("principals", "add", "agent:helper")
    page = at.tab()
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(at.url + "/people")
    assert page.is_hidden("text=Copy the token")
    page.get_by_label("For", exact=True).fill("agent:helper")
    page.get_by_label("A name to know it by").fill("the helper")
    press(page, "text=Make it")
    page.wait_for_selector("#made:not([hidden])")
    page.click("text=Copy the token")
    page.wait_for_selector("text=Copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.inner_text("#made").strip()
    revoke = page.locator("button[aria-label^='Revoke the token']")
    page.wait_for_timeout(READ_MS)
    revoke.click()
    page.wait_for_timeout(READ_MS)
    revoke.click()
    told(page, "Revoked")
    page.wait_for_selector("#made", state="hidden")
    assert page.inner_text("#made") == "" and page.is_hidden("text=Copy the token")
    assert at.wrong == []


@pytest.mark.slow
def test_what_nobody_decided_in_time_is_gone_from_the_page_by_itself(console: Opens) -> None:
    at = console()
    page = at.tab()
    page.clock.install()
    page.goto(at.url + "/approvals")
    at.metier("call", "fs_write", '{"path": "out/tea.txt", "content": "tea"}')
    page.wait_for_selector("[data-request]")
    looks: list[str] = []
    page.on("request", lambda each: looks.append(each.url))
    page.clock.fast_forward("16:00")  # its time is over, and nobody told the page anything
    page.wait_for_function("() => true")
    page.wait_for_timeout(500)
    assert any(each.endswith("/approvals") for each in looks)


@pytest.mark.slow
def test_a_number_is_sent_as_it_was_typed_or_not_at_all(console: Opens) -> None:
    def prepare(home: object) -> None:
        folder = home / "skills" / "adder"  # type: ignore[operator]
        folder.mkdir(parents=True)
        (folder / "SKILL.md").write_text(
            "---\nname: adder\nversion: 1.0.0\ndescription: Adds.\nmetadata:\n  metier:\n    tools:\n      - name: add\n"
            "        description: Add.\n        effect: read\n        parameters: {type: object, properties: {many: {type: integer}}, required: [many]}\n"
            "        entry: {kind: python, path: add.py, function: add}\n---\nAdd.\n"
        )
        (folder / "add.py").write_text("def add(params):\n    return params['many']\n")

    at = console(prepare=prepare)
    at.metier("skills", "trust", "adder", "--yes")
    page = at.tab()
    page.goto(at.url + "/skills/adder/try")
    field = page.locator("form[data-post='/api/v1/calls'] input[data-as=integer]")
    sent: list[str] = []
    page.on(
        "request", lambda each: sent.append(each.post_data or "") if each.url.endswith("/calls") else None
    )
    for typed, said in (("0x1F", "is no number"), ("1_000", "is no number"), ("9007199254740993", "")):
        field.fill(typed)
        press(page, "text=Call it")
        if said:
            told(page, said)
            assert sent == []
    page.wait_for_selector("#told.bad >> text=/9007199254740993|2\\^53|integer/")
    assert len(sent) == 1 and '"many":9007199254740993' in sent[0]
