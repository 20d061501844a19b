"""Whether a pattern is about something: then only messages fit it that are meant for it. For patterns that a skill's own file declares.

No list of messages to try it on can tell: whoever writes the pattern knows the list. So it must say of itself, in plain letters, what
every message has that fits it. Of a regular expression only so much is understood as is certain (what stands in it outside of all
groups, choices and classes), and what is not understood counts as about nothing.
"""

import re
from typing import Final

LEAST: Final = 3
"""Letters that stand side by side in every message that fits. Fewer stand in nearly every message."""
LEAST_AT_START: Final = 2
"""Characters that a message begins with."""
_IDEOGRAPHS: Final = ((0x3400, 0x9FFF), (0xF900, 0xFAFF), (0x20000, 0x3FFFF))
"""They count twice: most words are two of them."""
# A class may not begin with `]` nor hold a `[`: RE2 reads those otherwise than one would think.
_TOKEN: Final = re.compile(
    r"""
    (?P<escape> \\ [bBdDsSwWAz!-/:-@\[-^`{-~] )
  | (?P<set> \[ (?!\^?\]) \^? (?: [^\]\[\\] | \\[dDsSwW!-/:-@\[-^`{-~] )+ \] )
  | (?P<open> \( (?: \?: | \?P?<\w+> )? (?!\?) )
  | (?P<close> \) )
  | (?P<times> [*?+] \?? | \{ \d+ (?: , \d* )? \} \?? )
  | (?P<either> \| )
  | (?P<any> [.^$] )
  | (?P<letter> [^\\\[\](){}*+?|.^$] )
    """,
    re.VERBOSE | re.ASCII,
)


def is_about_something(pattern: str, mode: str) -> bool:
    """Whether only such messages fit that are meant."""
    match mode:
        case "regex":
            return any(_weight(run) >= LEAST for run in _required(pattern))
        case "startsWith":
            plain = "".join(pattern.split())
            return len(plain) >= LEAST_AT_START and any(map(str.isalnum, plain))
        case "exact":
            return any(map(str.isalnum, pattern))
        case _:
            return _weight(pattern) >= LEAST


def _weight(text: str) -> int:
    return sum(
        2 if any(low <= ord(letter) <= high for low, high in _IDEOGRAPHS) else 1
        for letter in text
        if letter.isalnum()
    )


def _required(pattern: str) -> list[str]:
    """Texts that every message has which fits the regular expression; none where that is not certain."""
    runs, depth, at = [""], 0, 0
    while at < len(pattern):
        token = _TOKEN.match(pattern, at)
        if token is None:
            return []
        at = token.end()
        match token.lastgroup:
            case "open":
                depth += 1
                runs.append("")
            case "close":
                depth -= 1
                if depth < 0:
                    return []
            case "either" if not depth:
                return []
            case "times" if not depth:
                runs[-1] = runs[-1][:-1]  # what stands before it may be missing
                runs.append("")
            case "letter" if not depth:
                runs[-1] += token["letter"]
            case _:
                runs.append("")
    return runs if not depth else []
