"""Nobody is shown on a page what the API would not tell him, nor a button that he may not press."""

from pathlib import Path

import anyio
import pytest

from seen_page import visiting
from serve_kit import Premises


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    return Premises(tmp_path, monkeypatch)


def test_tokens_are_shown_to_whom_the_api_lists_them_and_to_nobody_else(premises: Premises) -> None:
    premises.person("vera", "viewer")

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner, visiting(house, "vera") as vera:
            assert (await vera.it.get("/api/v1/tokens")).status_code == 403
            page = await vera.see("/people")
            assert "skills:execute" not in page.live.text and "principals:manage" in page.live.text
            id = (await owner.it.get("/api/v1/tokens")).json()["tokens"][0]["id"]
            assert id not in page.text
            assert id in (await owner.see("/people")).text  # the positive control

    anyio.run(main)


def test_the_first_steps_are_shown_to_who_can_take_them(premises: Premises) -> None:
    premises.person("vera", "viewer")
    premises.person("opal", "operator")

    async def main() -> None:
        async with (
            premises.serving() as house,
            visiting(house) as owner,
            visiting(house, "vera") as vera,
            visiting(house, "opal") as opal,
        ):
            assert "Three steps" not in (await vera.see("/")).text
            asks = "Ask to write out/hello.txt"
            assert asks in [each.words for each in (await owner.see("/")).forms]
            page = await opal.see("/")
            assert "Three steps" in page.text and asks not in [each.words for each in page.forms]

    anyio.run(main)
