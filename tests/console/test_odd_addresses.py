"""Whatever stands in the address of a page, it is answered with a page."""

from pathlib import Path
from urllib.parse import quote

import anyio
import pytest

from browser import browser
from seen_page import Seen, visiting
from serve_kit import Premises


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    return Premises(tmp_path, monkeypatch)


def explained(arguments: str) -> str:
    return f"/policy/explain?tool=fs_write&arguments={quote(arguments)}"


ODD = {
    "a number beyond any record": "/record?since=9999999999999999999999999",
    "a number beyond any integer of the store": f"/record?until={2**63}",
    "the last number that is taken": "/record?since=999999999999999&until=999999999999999",
    "arguments that never close": explained("[" * 6_000),
    "arguments of many levels": explained('{"a":' + "[" * 3_000 + "]" * 3_000 + "}"),
    "half a character": explained('{"a":"\\ud800"}'),
    "no number": explained('{"a":NaN}'),
    "a number of many digits": explained('{"a":1' + "0" * 5_000 + "}"),
    "one name twice": explained('{"path":"a","path":"b"}'),
}


@pytest.mark.parametrize("what", ODD)
def test_web_18_an_odd_address_is_answered_with_a_page_and_in_words(premises: Premises, what: str) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            answer = await owner.it.get(ODD[what])
            assert answer.status_code in (200, 400), answer.status_code
            assert answer.headers["content-type"].startswith("text/html")
            assert "Traceback" not in answer.text
            if ODD[what].startswith("/policy"):
                assert "the arguments are not JSON: " in answer.text

    anyio.run(main)


def test_a_call_is_explained_with_the_arguments_that_it_would_be_made_with(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            page = await owner.see(explained('{"path":"out/tea.txt","content":"tea"}'))
            assert "are not JSON" not in page.live.text and "fs_write" in page.live.text

    anyio.run(main)


NOWHERE = ("/nosuch", "/skills/a/b/c", "/favicon.ico", "/record/calls/", "/%F0%9F%8D%B5")


@pytest.mark.parametrize("path", NOWHERE)
def test_a_person_who_is_led_to_nothing_finds_a_page_with_the_menu_and_a_program_a_problem(
    premises: Premises, path: str
) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            answer = await owner.it.get(path, accept="text/html,*/*;q=0.8")
            page = Seen(answer.text)
            assert answer.status_code == 404 and "no page at this address" in page.live.text
            assert {"/", "/skills", "/record"} <= {each.get("href") for each in page.all("a")}
            program = await owner.it.get(path)
            assert program.status_code == 404 and program.json()["code"] == "not_found"
            api = await owner.it.get("/api/v1/nosuch", accept="text/html")
            assert api.json()["code"] == "not_found"
            posted = await owner.it.post(path, accept="text/html")
            assert posted.json()["code"] == "not_found"

    anyio.run(main)


def test_who_is_not_signed_in_is_not_told_which_pages_there_are(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, browser(house) as stranger:
            for path in ("/nosuch", "/skills"):
                answer = await stranger.get(path, accept="text/html")
                assert answer.status_code == 401 and 'id="sign-in"' in answer.text

    anyio.run(main)
