"""Names that may be used, and names that look alike."""

import os
from typing import Any

import pytest

from metier.dialects.names import is_standard, name_problem, skeleton
from metier.dialects.skill_md import compile_skill


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
        ("paypal", "paypaI"),
        ("paypal", "paypa1"),
        ("paypal", "paypa|"),
        ("google", "g00gle"),
        ("google", "GOOGLE."),
        ("pdf-reader", "pdf_reader"),
        ("pdf-reader", "pdf.reader"),
        ("pdf-reader", "pdf-reader.-"),
        ("modern", "modem"),
        ("browser", "brovvser"),
        ("local-files", "locaI_fiIes"),
        ("coptic", "ⲥⲟⲣⲧⲓⲥ"),
        ("coptic", "ⲤⲞⲢⲦⲒⲤ"),
        ("lisu-mail", "ꓡꓲꓢꓴ-ꓟꓮꓲꓡ"),
        ("small", "ꜱᴍᴀʟʟ"),
        ("modern", "ᴍᴏᴅᴇʀɴ"),
    ],
)
def test_names_that_look_alike_have_one_skeleton(honest: str, twin: str) -> None:
    assert honest != twin
    assert skeleton(honest) == skeleton(twin)


def test_names_that_do_not_look_alike_stay_apart() -> None:
    names = [
        "mail",
        "mails",
        "m-ail",
        "почта",
        "邮件",
        "email",
        "cafe",
        "café",
        "pdf",
        "pdf-2",
        "word",
        "sword",
    ]
    assert len({skeleton(name) for name in names}) == len(names)


def test_no_two_real_skills_of_different_names_are_taken_for_each_other(corpus: Any) -> None:
    names: set[str] = set()
    for expected in corpus.oracle:
        place = os.path.join(corpus.root, expected["path"])
        with open(place, "rb") as file:
            compiled = compile_skill(file.read(), folder=os.path.basename(os.path.dirname(place)))
        if compiled.skill is not None:
            names.add(compiled.skill.name)
    assert len(names) > 1_000
    assert len({skeleton(name) for name in names}) == len(names)


@pytest.mark.parametrize(
    "name", ["metier", "Metier", "rnetier", "met1er", "metler", "mеtier", "metier-", "METIER_"]
)
def test_sup_02_no_skill_is_called_as_metier_itself_or_nearly_so(name: str) -> None:
    assert name_problem(name) == "it is Metier's own, or looks like it"
    assert not is_standard(name)


def test_every_standard_name_that_looks_like_ours_is_known_at_a_glance() -> None:
    spelled = (f"{m}et{i}er" for m in ("m", "rn") for i in "il1")
    assert not [name for name in spelled if is_standard(name)]
    assert is_standard("metier-tools")
