"""docs/configuration.md names every setting there is, and what it shows can be used as it stands."""

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from metier.config import gateway, load, programs
from metier.model.program import OperatorProgram

PAGE = (Path(__file__).parents[2] / "docs/configuration.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```toml\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
PROJECTS = [block for block in BLOCKS if block.startswith("# a project's")]
OWN = [block for block in BLOCKS if block not in PROJECTS]


def keys_of(kind: Any, above: str = "") -> Iterator[str]:
    """Every key that a table may have, with the tables it lies in; a name of the operator's choosing is `*`."""
    match kind:
        case msgspec.inspect.StructType(fields=fields):
            for field in fields:
                yield from keys_of(field.type, f"{above}.{field.encode_name}" if above else field.encode_name)
        case msgspec.inspect.DictType(value_type=msgspec.inspect.StructType() as inner):
            yield from keys_of(inner, f"{above}.*")
        case msgspec.inspect.UnionType(types=types) if any(
            isinstance(each, msgspec.inspect.StructType) for each in types
        ):
            for each in types:
                if isinstance(each, msgspec.inspect.StructType):
                    yield from keys_of(each, above)
        case _:
            yield above


def said(blocks: list[str]) -> set[str]:
    """Every key that stands in the blocks, spelled in the same way."""

    def below(value: Any, above: str) -> Iterator[str]:
        yield above
        if isinstance(value, dict):
            for key, inner in value.items():
                yield from below(inner, f"{above}.{key}")
                if above in ("skills.entries", "binaries.programs"):
                    yield from below(inner, f"{above}.*")

    trees = [tomllib.loads(block) for block in blocks]
    return {key for tree in trees for name, value in tree.items() for key in below(value, name)}


def test_every_key_of_the_operators_file_is_shown() -> None:
    keys = set(keys_of(msgspec.inspect.type_info(load._File)))  # pyright: ignore[reportPrivateUsage]
    assert {"skills.entries.*.hosts", "binaries.programs.*.before", "xbot.resolve.local_paths"} <= keys
    assert keys - said(OWN) == set()


def test_every_key_of_a_projects_file_is_shown() -> None:
    keys = set(keys_of(msgspec.inspect.type_info(load._ProjectFile)))  # pyright: ignore[reportPrivateUsage]
    assert {"skills.roots", "budgets.memory.calls", "approvals.four_eyes"} <= keys
    assert keys - said(PROJECTS) == set()


@pytest.mark.parametrize("block", OWN, ids=lambda block: block.split("\n", 1)[0])
def test_what_is_shown_of_the_operators_file_can_be_used(block: str, tmp_path: Path) -> None:
    file = tmp_path / "own.toml"
    file.write_text(block, encoding="utf-8")
    read(tmp_path, config=str(file))


def test_what_is_shown_of_a_projects_file_can_be_used(tmp_path: Path) -> None:
    (block,) = PROJECTS
    (tmp_path / "project").mkdir()
    (tmp_path / "project/metier.toml").write_text(block, encoding="utf-8")
    assert read(tmp_path).approvals.four_eyes


def test_every_variable_that_is_looked_at_is_named() -> None:
    names = {"METIER_HOME", *programs._PASSED_ON}  # pyright: ignore[reportPrivateUsage]
    names |= {each.removeprefix("env://") for each in gateway._IN_THE_ENVIRONMENT.values()}  # pyright: ignore[reportPrivateUsage]
    assert [name for name in sorted(names) if f"`{name}`" not in PAGE] == []


def test_every_word_about_a_program_is_explained() -> None:
    table = PAGE[PAGE.index("## Programs") : PAGE.index("## XBot packages")]
    assert [name for name in OperatorProgram.__struct_fields__ if f"`{name}`" not in table] == []


def read(place: Path, config: str | None = None) -> load.Settings:
    return load.load(
        config=config,
        home=str(place / "home"),
        project=str(place / "project"),
        environ={"HOME": str(place)},
    )
