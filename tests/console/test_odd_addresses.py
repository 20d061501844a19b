"""Whatever stands in the address of a page, it is answered with a page."""

from pathlib import Path
from urllib.parse import quote

import anyio
import pytest

from seen_page import visiting
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
