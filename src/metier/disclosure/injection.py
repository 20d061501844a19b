"""Whole skills inside a system prompt, in OmniAgent's format.

The format is fixed byte for byte: the prompt, a heading, then each skill under a heading of its own with a
separator after it. A body cannot pretend to be any of these: a line that a reader would take for our heading,
for the heading of a skill in the same prompt or for the separator gets a backslash in front, also inside code
blocks, because a model reads lines and not Markdown. Characters that some readers take for a line end are
spelled out. Every other line stays as it was written.

When no skill is left to show the prompt stays as it is: a heading with nothing below it would only confuse.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, final
from unicodedata import normalize

from msgspec import Struct

from metier.disclosure import NAME_LIMIT, may_be_shown
from metier.model.skill import Skill
from metier.model.text import INVISIBLE, one_line

EMOJI_LIMIT: Final = 16
TITLE: Final = "Available Skills"

_ODD_BREAK: Final = re.compile("[\v\f\x1c-\x1e\x85\u2028\u2029]|\r(?!\n)")
_STYLE: Final = re.compile("[\ufe0e\ufe0f]")
_RULE: Final = re.compile("[-\u2010-\u2015\u2212]{3,}")


@final
class InjectConfig(Struct, frozen=True, kw_only=True):
    """How much is injected and what stands between two skills."""

    max_skills: int = 20
    """0 means no limit."""
    include_unavailable: bool = False
    """Also show skills whose requirements are not met here."""
    separator: str = "\n\n---\n\n"

    def __post_init__(self) -> None:
        if self.max_skills < 0:
            raise ValueError(f"max_skills is {self.max_skills}; it must be 0 (no limit) or more")
        if not (self.separator.startswith("\n") and self.separator.endswith("\n")):
            raise ValueError("the separator must begin and end with a line feed, or a body could run into it")


DEFAULT: Final = InjectConfig()


@final
class Page(Struct, frozen=True):
    """One skill that may be shown in full."""

    skill: Skill
    body: str | Callable[[], str]
    """The instructions, or what reads them; called only when they are needed."""
    available: bool = True


def inject(system_prompt: str, pages: Sequence[Page], config: InjectConfig = DEFAULT) -> str:
    """`system_prompt` followed by the skills in their order; only the bodies that are shown are read.

    What a body's callable raises passes through.
    """
    chosen = _chosen(pages, config)
    if not chosen:
        return system_prompt
    escape = _Escape.of([page.skill for page in chosen], config.separator)
    parts = [system_prompt, f"\n\n# {TITLE}\n\n"]
    for page in chosen:
        body = page.body if isinstance(page.body, str) else page.body()
        parts += ["## ", _heading(page.skill), "\n\n", escape.body(body.strip()), config.separator]
    return "".join(parts)


def left_out(pages: Sequence[Page], config: InjectConfig = DEFAULT) -> tuple[str, ...]:
    """Names of the skills that `inject` does not show, so that a door can say so."""
    shown = {id(page) for page in _chosen(pages, config)}
    return tuple(one_line(page.skill.name, NAME_LIMIT) for page in pages if id(page) not in shown)


def _chosen(pages: Sequence[Page], config: InjectConfig) -> list[Page]:
    usable = [
        page for page in pages if may_be_shown(page.skill) and (page.available or config.include_unavailable)
    ]
    return usable[: config.max_skills] if config.max_skills else usable


def _heading(skill: Skill) -> str:
    name, emoji = one_line(skill.name, NAME_LIMIT), one_line(skill.emoji, EMOJI_LIMIT)
    return f"{emoji} {name}" if emoji else name


def _seen(line: str) -> str:
    """The line as a reader takes it in: unseen characters gone, look-alikes, case and spaces folded."""
    if not line.isascii() or not line.isprintable():
        line = normalize("NFKC", _STYLE.sub("", INVISIBLE.sub("", line.expandtabs(4))))
    return line.casefold()


def _title(heading: str) -> str:
    return " ".join(heading.strip("# ").split())


@final
class _Escape(Struct, frozen=True):
    """Knows which lines belong to us in one prompt."""

    headings: frozenset[str]
    separators: frozenset[str]

    @classmethod
    def of(cls, skills: Sequence[Skill], separator: str) -> "_Escape":
        titles = {_heading(skill) for skill in skills} | {
            one_line(skill.name, NAME_LIMIT) for skill in skills
        }
        lines = {_seen(line).strip() for line in separator.splitlines()}
        return cls(frozenset(_title(_seen(title)) for title in titles), frozenset(lines - {""}))

    def body(self, text: str) -> str:
        """`text` with the lines that are ours marked as not ours."""
        text = _ODD_BREAK.sub(lambda found: f"\\u{{{ord(found[0]):x}}}", text)
        return "\n".join(self._mark(line) if self._forges(line) else line for line in text.split("\n"))

    @staticmethod
    def _mark(line: str) -> str:
        rest = line.lstrip()
        return f"{line[: len(line) - len(rest)]}\\{rest}"

    def _forges(self, line: str) -> bool:
        seen = _seen(line)
        text = seen.strip()
        if not text or len(seen) - len(seen.lstrip()) > 3:
            return False
        if text in self.separators or _RULE.fullmatch(text):
            return True
        level = len(text) - len(text.lstrip("#"))
        if not level:
            return False
        title = _title(text)
        return title == TITLE.casefold() or (level == 2 and title in self.headings)
