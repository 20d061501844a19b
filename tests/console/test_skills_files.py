"""The files of a skill: read from the bytes that are bound, as text; and no other file of the machine."""

import hashlib
from pathlib import Path
from urllib.parse import urlencode

import anyio
import pytest

from machine import write_skill
from metier.doors.http.console.skills_bytes import MOST_BYTES
from metier.doors.http.console.skills_files import ON_A_PAGE
from seen_page import Seen, visiting
from serve_kit import Premises

ODD = "notes/a \\ b & c?#%2e \u202e<b>.md"


@pytest.fixture
def premises(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Premises:
    made = Premises(tmp_path, monkeypatch)
    folder = write_skill(made.machine.project / "skills" / "tea", body="Pour.")
    (folder / "notes").mkdir()
    (folder / ODD).write_text("<script>hot</script>\u200b\r\nwater", encoding="utf-8")
    (folder / "blob.bin").write_bytes(bytes(range(256)))
    (folder / "null.txt").write_bytes(b"a\0b")
    (folder / "large.txt").write_text("x" * (MOST_BYTES + 1), encoding="utf-8")
    return made


def rows(page: Seen) -> dict[str, tuple[str, str]]:
    """By what stands there: where it leads, and how many bytes it has."""
    made: dict[str, tuple[str, str]] = {}
    for each in page.live.all("tr")[1:]:
        name, size, _ = each.all("td")
        made[name.all("a")[0].text] = (name.all("a")[0].get("href") or "", size.text)
    return made


def test_every_file_is_listed_and_read_as_text_whatever_it_is_called(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            found = rows(await owner.see("/skills/tea/files"))
            odd = r"notes/a \ b & c?#%2e \u{202e}<b>.md"
            assert set(found) == {"SKILL.md", odd, "blob.bin", "null.txt", "large.txt"}
            page = await owner.see(found[odd][0])
            assert odd in page.all("h2")[0].text and not page.live.all("b") and not page.live.all("script")
            assert page.all("pre")[0].whole == "<script>hot</script>\\u{200b}\nwater"
            assert "Pour." in (await owner.see(found["SKILL.md"][0])).all("pre")[0].whole

    anyio.run(main)


def test_what_is_no_text_or_too_large_is_named_with_its_size_and_digest(premises: Premises) -> None:
    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            found = rows(await owner.see("/skills/tea/files"))
            for name, words in (("blob.bin", "no text"), ("null.txt", "no text"), ("large.txt", "too large")):
                page = await owner.see(found[name][0])
                data = (premises.machine.project / "skills" / "tea" / name).read_bytes()
                assert words in page.live.text and not page.all("pre"), name
                assert hashlib.sha256(data).hexdigest() in page.live.text
                assert f"{len(data):,} bytes" in page.live.text and found[name][1] == f"{len(data):,}"

    anyio.run(main)


def test_fs_01_nothing_outside_of_the_skill_can_be_asked_for(premises: Premises) -> None:
    secret = premises.machine.project / "skills" / "secret.txt"
    secret.write_text("top secret", encoding="utf-8")

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            for path in (
                "../secret.txt",
                str(secret),
                "notes/../../secret.txt",
                "/etc/passwd",
                "..",
                "notes",
                "nothing.md",
                "\0",
            ):
                page = await owner.see(f"/skills/tea/files?{urlencode({'path': path})}", 404)
                assert "top secret" not in page.whole and "root:" not in page.whole
            assert "Pour." in (await owner.see("/skills/tea/files?path=SKILL.md")).live.text

    anyio.run(main)


def test_other_bytes_than_those_that_were_looked_at_are_not_shown_as_these(premises: Premises) -> None:
    folder = premises.machine.project / "skills" / "tea"

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            before = rows(await owner.see("/skills/tea/files"))["SKILL.md"][0]
            write_skill(folder, body="Poison.")
            await house.engine.reload()
            page = await owner.see(before, 409)
            assert "not those you looked at" in page.live.text and "Poison." not in page.whole
            now = rows(await owner.see("/skills/tea/files"))["SKILL.md"][0]
            assert "Poison." in (await owner.see(now)).live.text
            await owner.see(f"/skills/tea/files?path=SKILL.md&digest=sha256:{'0' * 64}", 409)
            await owner.see("/skills/tea/files?path=SKILL.md&digest=odd", 400)
            await owner.see("/skills/nothing-is-called-that/files", 404)

    anyio.run(main)


def test_many_files_come_in_pages(premises: Premises) -> None:
    folder = write_skill(premises.machine.project / "skills" / "many")
    for number in range(ON_A_PAGE + 3):
        (folder / f"{number:03}.md").write_text("x", encoding="utf-8")

    async def main() -> None:
        async with premises.serving() as house, visiting(house) as owner:
            first = await owner.see("/skills/many/files")
            assert len(rows(first)) == ON_A_PAGE and "54 files" in first.live.text
            (after,) = [each for each in first.links if "page=2" in each]
            assert len(rows(await owner.see(after))) == 4

    anyio.run(main)
