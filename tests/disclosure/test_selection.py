"""Choosing among many skills: by their own words, never by each other's."""

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from metier.disclosure.selection import pattern_problem, select
from metier.model.skill import Activation, Skill


def skill(name: str, description: str = "", **activation) -> Skill:
    return Skill(
        name=name, description=description, dialect="agent_skills", activation=Activation(**activation)
    )


def chosen(skills: list[Skill], message: str, limit: int = 10) -> list[str]:
    return [choice.skill.name for choice in select(skills, message, limit=limit)]


def score(one: Skill, message: str) -> int:
    return sum(choice.score for choice in select([one], message, limit=1))


def test_the_best_fit_comes_first_and_says_why() -> None:
    skills = [
        skill("weather", "Tells the weather."),
        skill("notes", "Merge text files and notes."),
        skill("pdf", "Reads, merges and splits files.", keywords=("merge files",), patterns=(r"\.pdf\b",)),
    ]
    found = select(skills, "Please merge these two files: a.pdf and b.pdf", limit=5)
    assert [(choice.skill.name, choice.because) for choice in found] == [
        ("pdf", ("name: pdf", "keyword: merge files", r"pattern: \.pdf\b", "description: merge, files")),
        ("notes", ("description: merge, files",)),
    ]


def test_nothing_fits_nothing_is_chosen() -> None:
    assert chosen([skill("pdf", "Reads files.", keywords=("merge",))], "what is the time?") == []
    assert chosen([skill("pdf")], "") == []


def test_at_most_the_asked_number_and_equals_keep_their_order() -> None:
    skills = [skill(f"s{i}", "deploy the server") for i in range(9)]
    assert chosen(skills, "deploy my server", limit=3) == ["s0", "s1", "s2"]
    assert chosen(skills, "deploy my server", limit=0) == []
    assert chosen(skills, "deploy my server", limit=-1) == []


def test_an_excluded_word_vetoes() -> None:
    one = skill("git", keywords=("commit",), exclude_keywords=("svn", "🐢"))
    assert chosen([one], "commit this") == ["git"]
    assert chosen([one], "commit this to SVN") == []
    assert chosen([one], "commit this 🐢") == []


@pytest.mark.parametrize("state", [{"model_may_invoke": False}, {"status": "disabled"}])
def test_what_is_not_for_models_is_never_chosen(state: dict) -> None:
    assert chosen([Skill(name="pdf", description="", dialect="agent_skills", **state)], "pdf") == []


@pytest.mark.parametrize("word", ["merge", "merges", "merged", "merging", "MERGE"])
def test_forms_of_a_word_are_one_word(word: str) -> None:
    assert chosen([skill("x", "Merging of queries")], f"{word} it") == ["x"]
    assert chosen([skill("x", word)], "merge a query") == ["x"]


def test_words_that_say_nothing_count_nothing() -> None:
    stuffed = skill(
        "the", "the and of to in is it you that for on with as are this", keywords=("the", "is"), tags=("a",)
    )
    assert chosen([stuffed], "is this the file that you are to use for it?") == []


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ("读取和合并PDF文件", "请帮我合并两个文件"),
        ("PDFファイルを結合する", "ファイルの結合をお願い"),
        ("파일을 병합합니다", "이 파일을 병합"),
    ],
)
def test_messages_without_spaces_between_words_work(description: str, message: str) -> None:
    assert chosen([skill("x", description), skill("y", "天气")], message) == ["x"]


def test_stuffing_does_not_win() -> None:
    message = "convert the invoice from last month into a spreadsheet with totals and taxes by customer"
    words = tuple(message.split())
    honest = skill(
        "invoice-spreadsheet", "Turns an invoice into a spreadsheet.", keywords=("invoice", "spreadsheet")
    )
    stuffed = skill(
        "helper", " ".join(words * 9), keywords=words * 9, tags=words * 9, patterns=(".*", "in", "a", ".")
    )
    plain = skill("plain", " ".join(words))
    assert score(stuffed, message) == 30 + 12 + 32 + 8
    assert [len(why.split(", ")) for why in select([stuffed], message, limit=1)[0].because] == [3, 3, 2, 8]
    assert score(plain, message) == 8 < score(honest, message)


def test_repeating_a_word_in_other_forms_counts_once() -> None:
    assert score(skill("x", keywords=("pdf", "PDF", "pdfs", " pdf ")), "pdf") == 10
    assert score(skill("x", patterns=("pdf", "pdf")), "pdf") == 16


def test_only_the_start_of_a_huge_message_is_looked_at() -> None:
    assert chosen([skill("pdf")], "x " * 5_000 + "pdf") == []
    assert chosen([skill("pdf")], "x " * 4_000 + "pdf") == ["pdf"]


def test_a_message_with_broken_characters_is_read_all_the_same() -> None:
    assert chosen([skill("pdf", patterns=("pd.",))], "pdf \ud800") == ["pdf"]


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", "missing )"),
        ("(?=x)", "RE2 syntax"),
        (r"(a)\1", "RE2 syntax"),
        ("x" * 501, "501 characters"),
        ("(?:(?:a?b?c?){10}){20}z", "too complex"),
        (r"(\pL|\pN){500}", "RE2 syntax"),
        ("\ud800", "not valid text"),
    ],
)
def test_a_pattern_that_cannot_be_used_counts_nothing_and_says_why(pattern: str, reason: str, capfd) -> None:
    assert reason in (pattern_problem(pattern) or "")
    assert chosen([skill("q", patterns=(pattern,)), skill("w", patterns=("a",))], "aaa") == ["w"]
    assert capfd.readouterr() == ("", "")


def test_res_17_a_pattern_that_explodes_elsewhere_is_linear_here() -> None:
    pattern = "(a+)+$"
    started = time.process_time()
    assert re.search(pattern, "a" * 22 + "!") is None
    naive = time.process_time() - started
    started = time.process_time()
    assert chosen([skill("x", patterns=(pattern,))], "a" * 5_000 + "!") == []
    assert time.process_time() - started < naive
    assert pattern_problem(pattern) is None


words = st.lists(
    st.sampled_from(["pdf", "merge", "files", "server", "deploy", "notes", "文件", "合并", "the"]), max_size=4
).map(tuple)
skills_ = st.builds(
    lambda name, about, keywords, tags, exclude, patterns: skill(
        "-".join(name), " ".join(about), keywords=keywords, tags=tags, exclude_keywords=exclude, patterns=patterns
    ),
    words, words, words, words, words, words,
)  # fmt: skip


@given(st.lists(skills_, max_size=6), words, st.data())
def test_a_score_does_not_depend_on_what_else_is_there(
    skills: list[Skill], said: tuple[str, ...], data
) -> None:
    message = " ".join(said)
    alone = [select([one], message, limit=1) for one in skills]
    expected = sorted([choice for found in alone for choice in found], key=lambda choice: -choice.score)
    assert select(skills, message, limit=99) == expected

    newcomer = data.draw(skills_)
    place = data.draw(st.integers(0, len(skills)))
    more = select([*skills[:place], newcomer, *skills[place:]], message, limit=99)
    assert [choice for choice in more if choice.skill is not newcomer] == expected


@given(st.text(max_size=300), st.text(max_size=300))
def test_any_text_is_read_without_an_error(description: str, message: str) -> None:
    found = select(
        [skill(description, description, keywords=(description,), exclude_keywords=("zzzz",))],
        message,
        limit=3,
    )
    assert all(choice.score > 0 and choice.because for choice in found)
