"""Where an argument of a call may stand in a command's line: never where it would be code, or name another program. Pure.

Every shell, interpreter and program that starts others is known by name, and so are those whose arguments are code as a rule.
Of any other program nobody knows what it makes of an argument, so a command that hands one to it is of high risk (`risk`);
what it can reach, the walls of the sandbox say.
"""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from metier.dialects.shell_words import PLACE
from metier.model.interpreters import is_among, is_interpreter, is_starter
from metier.model.text import one_line

_SCRIPT: Final = re.compile(
    r"(?!-)[A-Za-z0-9_./-]+\.(?:py|js|mjs|cjs|ts|sh|bash|rb|pl|php|lua|tcl|r|jl)", re.I
)
_CODE: Final = """
    sed gsed ed red ex vi vim nvim view vimdiff gvim rvim emacs emacsclient sqlite sqlite3 psql mysql mariadb mongosh duckdb dc
    gnuplot tex latex pdflatex xelatex lualatex less more most man pager w3m lynx
    awk gawk mawk nawk original-awk igawk gdb lldb m4 ghci csi mail mailx s-nail nail mutt neomutt sendmail exim
    cc gcc g++ c++ cpp clang clang++ ld tcc rustc javac
    make gmake bmake just ninja task rake invoke fab cmake ctest meson scons gradle gradlew mvn ant sbt bazel buck
    npm pnpm yarn corepack uv pip pip3 pipenv poetry pdm hatch tox nox conda mamba cargo rustup go gem bundle composer mix
    nix nix-env nix-build apt apt-get dpkg rpm dnf yum brew ansible ansible-playbook terraform vagrant helm
"""
_TOLD: Final = frozenset(_CODE.split())
"""Their arguments are code, or name what is run."""
_FIRST: Final = frozenset(
    [
        "tar",
        "gtar",
        "bsdtar",
        "star",
        "ar",
        "7z",
        "7za",
        "7zr",
        "7zz",
        "rar",
        "hg",
        "svn",
        "bzr",
        "jj",
        "fossil",
    ]
)
"""What they are to do is their first word, for some with options in it and no sign before them."""
_OPTIONS: Final = _FIRST | frozenset(
    ["git", "zip", "cpio", "pax", "rsync", "scp", "sftp", "sort", "split", "rg", "wget", "tcpdump"]
)
"""Some of their options name a program."""
_GIT: Final = frozenset({"git"})
_LOOKS: Final = """
    log show diff blame annotate status grep shortlog describe whatchanged reflog ls-files ls-tree cat-file rev-parse rev-list
    name-rev merge-base for-each-ref show-ref show-branch range-diff cherry check-ignore check-attr count-objects
    diff-tree diff-index diff-files
"""
_LOOKERS: Final = frozenset(_LOOKS.split())
"""What git can be told that starts no program which its arguments name."""
_PROGRAM_LETTER: Final = re.compile("[IF]")
"""Of tar, in a first word without a sign before it: a word behind it is a program."""
_SEARCH: Final = frozenset({"find", "fd", "fdfind"})
_HANDS_ON: Final = re.compile(r"-(?:exec|execdir|ok|okdir|x|X|-exec|-exec-batch)\b.*", re.DOTALL)


def place_problem(argv: Sequence[str]) -> str:
    """Why a place in this line could become code or a program; empty when none could."""
    first = next((at for at, word in enumerate(argv) if at and PLACE.search(word)), 0)
    if not first:
        return ""
    name, program = argv[0].casefold(), one_line(argv[0], 60)
    if is_starter(name):
        return f"{program!r} starts what it is told, so an argument of a call could become a program; name that program itself"
    if is_among(name, _TOLD):
        return (
            f"{program!r} takes code, or the name of what it runs, so an argument of a call could become code; write the "
            "whole line yourself, or run a script of yours (python3 report.py {{name}})"
        )
    if is_interpreter(name):
        if first > 1 and _SCRIPT.fullmatch(argv[1]):
            return ""
        return (
            f"{program!r} runs what it is told, so an argument of a call could become code; name a script of yours first"
            f" ({program} report.py {{{{name}}}})"
        )
    if is_among(name, _SEARCH):
        handed = any(map(_HANDS_ON.fullmatch, argv[1:]))
        return f"{program!r} is told to start a program, so it takes no argument of a call" if handed else ""
    if name.startswith("git-") or (is_among(name, _GIT) and argv[1] not in _LOOKERS):
        return (
            f"{program!r} is given an argument of a call only where it looks something up and is told so first (git log "
            "{{name}}); else such an argument could become a program"
        )
    if is_among(name, _OPTIONS) and _is_value(argv):
        return (
            f"{program!r} has options that name a program, so an argument of a call stands behind none of them, and never "
            "first; put it further on, or behind `--`"
        )
    return ""


def _is_value(argv: Sequence[str]) -> bool:
    """Whether a place is, or may be, the value of an option, or what the program is to do."""
    if is_among(argv[0], _FIRST) and (PLACE.search(argv[1]) or _PROGRAM_LETTER.search(argv[1])):
        return True
    ends = argv.index("--", 1) if "--" in argv[1:] else len(argv)
    return any(
        PLACE.search(word) and (word.startswith("-") or before.startswith("-"))
        for before, word in pairwise(argv[:ends])
    )
