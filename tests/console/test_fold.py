"""Long arguments are folded where they stand: nothing is left out, it is said how much is not shown, and no long one hides a short one."""

from hypothesis import given
from hypothesis import strategies as st

from metier.doors.http.console.fold import Folded, folded_items
from metier.model.digest import Json
from metier.model.exact import laid_out

SCRIPT = "".join(f"echo line {number}\n" for number in range(300))


def shown(parts: list[Folded]) -> str:
    return "\n".join(each.first for each in parts)


def whole(parts: list[Folded]) -> str:
    """As a browser has it once everything is unfolded."""
    said = ""
    for each in parts:
        said += ("\n" if said else "") + each.first
        if each.rest:
            said += ("" if "goes on" in each.more else "\n") + each.rest
    return said


def test_a_long_argument_hides_none_of_the_others() -> None:
    parts = folded_items({"code": SCRIPT, "force": True, "path": "/etc/passwd"})
    assert '"path": "/etc/passwd"' in shown(parts) and '"force": true' in shown(parts)
    assert "echo line 250" not in shown(parts) and "echo line 250" in whole(parts)
    assert [each.more for each in parts if each.more] == ["261 more lines, 6,203 bytes"]


def test_of_several_long_ones_each_begins_on_the_screen() -> None:
    parts = folded_items({**{f"code{n}": SCRIPT for n in range(9)}, "zone": "prod"})
    assert shown(parts).count("\n") < 120 and '"zone": "prod"' in shown(parts)
    assert all(f'"code{n}"' in shown(parts) for n in range(9))


def test_more_than_anybody_looks_through_are_one_text_that_says_how_much_is_folded() -> None:
    [part] = folded_items({f"n{n:03}": n for n in range(200)})
    assert part.more.startswith("162 more lines")


TEXT = st.text(alphabet='a\n"\u202e', max_size=4) | st.integers(0, 9).map(lambda n: "x\n" * 30 * n)


@given(st.dictionaries(TEXT, TEXT, max_size=30))
def test_nothing_is_left_out(value: dict[str, Json]) -> None:
    assert whole(folded_items(value)) == laid_out(value)
