"""Names that may be used, and names that look alike."""

import pytest

from metier.dialects.names import name_problem, skeleton


@pytest.mark.parametrize(
    "name", ["a", "pdf-reader", "7zip", "null", "console", "My Skill", "技能", "naïve", "a.b"]
)
def test_an_honest_name_has_no_problem(name: str) -> None:
    assert name_problem(name) == ""


@pytest.mark.parametrize(
    "name", ["", " ", ".", "..", "a/b", "a\\b", "a\x00b", "aux", "PRN.md", "COM¹", "a\u00adb", "\ud800"]
)
def test_sup_02_a_dangerous_name_has_a_reason(name: str) -> None:
    assert name_problem(name)


@pytest.mark.parametrize(
    ("honest", "twin"),
    [
        ("paypal", "раураl"),
        ("github", "GitHub"),
        ("github", "ｇｉｔｈｕｂ"),
        ("mail", "ΜΑΙL"),
        ("mail", "ma\u200bil"),
        ("cafe\u0301", "caf\u00e9"),
        ("a-b", "a\u2010b"),
    ],
)
def test_names_that_look_alike_have_one_skeleton(honest: str, twin: str) -> None:
    assert honest != twin
    assert skeleton(honest) == skeleton(twin)


def test_names_that_do_not_look_alike_stay_apart() -> None:
    names = ["mail", "mails", "m-ail", "почта", "邮件", "email", "cafe", "café"]
    assert len({skeleton(name) for name in names}) == len(names)
