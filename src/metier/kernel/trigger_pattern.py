"""Patterns of triggers, matched in time that grows with the message and not faster: RE2, bounded in memory and in size.

Called in a thread: even a linear match over a long text takes longer than the loop can wait.
"""

from functools import lru_cache
from typing import Any, Final, Protocol

from metier.model.text import one_line

LONGEST_TEXT: Final = 16_384
"""Characters of a message that patterns look at."""
_LONGEST_PATTERN: Final = 500
_LARGEST_PROGRAM: Final = 500
"""RE2 instructions: a counted repetition is short to write and long to run."""
_MEMORY: Final = 1 << 18


class _Compiled(Protocol):
    def search(self, text: str) -> object | None: ...


def pattern_problem(pattern: str, *, case_sensitive: bool) -> str:
    """Why it cannot be used as a regular expression; empty when it can. Where case does not count a pattern is larger."""
    found = _compiled(pattern, case_sensitive=case_sensitive)
    return found if isinstance(found, str) else ""


def fits(pattern: str, text: str, mode: str, *, case_sensitive: bool) -> bool:
    """Whether `text` fits. A pattern that cannot be used fits nothing."""
    text = text[:LONGEST_TEXT]
    if mode == "regex":
        compiled = _compiled(pattern, case_sensitive=case_sensitive)
        clean = text.encode("utf-8", "replace").decode()  # RE2 takes no lone surrogates
        return not isinstance(compiled, str) and compiled.search(clean) is not None
    if not case_sensitive:
        pattern, text = pattern.casefold(), text.casefold()
    match mode:
        case "exact":
            return text.strip() == pattern.strip()
        case "startsWith":
            return text.lstrip().startswith(pattern.lstrip())
        case _:
            return pattern in text


@lru_cache(maxsize=1_024)
def _compiled(pattern: str, *, case_sensitive: bool) -> _Compiled | str:
    """Ready for use, or the reason why not."""
    if len(pattern) > _LONGEST_PATTERN:
        return f"a pattern has {len(pattern):,} characters, and {_LONGEST_PATTERN} are the most"
    import re2  # pyright: ignore[reportMissingTypeStubs]  # only who has such a pattern needs it

    engine: Any = re2
    options = engine.Options()
    options.log_errors = False  # it would write to stderr by itself
    options.case_sensitive = case_sensitive
    options.never_capture = True
    options.max_mem = _MEMORY
    shown = one_line(pattern, 60)
    try:
        compiled = engine.compile(pattern, options)
    except UnicodeEncodeError:
        return f"the pattern {shown!r} holds characters that are no valid text"
    except engine.error as error:
        reason = str(error.args[0], "utf-8", "replace")  # RE2 speaks in bytes
        return f"the pattern {shown!r} cannot be used: {one_line(reason, 200)}; write it in RE2 syntax"
    if compiled.programsize > _LARGEST_PROGRAM:
        return f"the pattern {shown!r} is too large once its repetitions are counted out; make it simpler"
    return compiled
