"""Whole skills inside a system prompt, in OmniAgent's format.

The format is fixed byte for byte: the prompt, a heading, then each skill under a heading of its own with a
separator after it. A body cannot pretend to be any of these (`forgery`), and what a reader cannot see in it is
spelled out. Every other line stays as it was written.

When no skill is left to show the prompt stays as it is: a heading with nothing below it would only confuse.
"""

from collections.abc import Callable, Sequence
from typing import Final, final

from msgspec import Struct

from metier.disclosure import NAME_LIMIT, may_be_shown
from metier.disclosure.forgery import LEVEL, Forgery
from metier.model.skill import Skill
from metier.model.text import one_line, visible

EMOJI_LIMIT: Final = 16
TITLE: Final = "Available Skills"


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
    titles = [(_name(page.skill), _heading(page.skill)) for page in chosen]
    forgery = Forgery.of(TITLE, titles, config.separator)
    parts = [system_prompt, f"\n\n# {TITLE}\n\n"]
    for page, own in zip(chosen, titles, strict=True):
        body = page.body if isinstance(page.body, str) else page.body()
        shown = forgery.marked(visible(body.strip()), own=own)
        parts += ["#" * LEVEL, " ", own[1], "\n\n", shown, config.separator]
    return "".join(parts)


def left_out(pages: Sequence[Page], config: InjectConfig = DEFAULT) -> tuple[str, ...]:
    """Names of the skills that `inject` does not show, so that a door can say so."""
    shown = {id(page) for page in _chosen(pages, config)}
    return tuple(_name(page.skill) for page in pages if id(page) not in shown)


def _chosen(pages: Sequence[Page], config: InjectConfig) -> list[Page]:
    usable = [
        page for page in pages if may_be_shown(page.skill) and (page.available or config.include_unavailable)
    ]
    return usable[: config.max_skills] if config.max_skills else usable


def _name(skill: Skill) -> str:
    return one_line(skill.name, NAME_LIMIT)


def _heading(skill: Skill) -> str:
    emoji = one_line(skill.emoji, EMOJI_LIMIT)
    return f"{emoji} {_name(skill)}" if emoji else _name(skill)
