"""Which lines `shell_safe` lets a program be started with: for each program a table of what may stand in its line.

Pure. What is in no table is refused: an option, a short form of one, a letter among other letters, a subcommand. The line
that comes out is not the one that came in: options first, each value behind its own option, then `--` where the program
knows it, and every path checked and spelled so that no program can take it for an option.
"""

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

FOLDERS = ("memory", "persona", "logs", "out", "etc", "docs")
MOST_ARGUMENTS = 200
MOST_BYTES = 32_768
LONGEST_PATH, LONGEST_NAME, DEEPEST = 4_096, 255, 64

# --- kinds of values ----------------------------------------------------------------------------------------------------

FLAG, TEXT, PATH = "", "text", "path"
KINDS = {
    "number": r"[0-9]{1,9}",
    "signed": r"[+-]?[0-9]{1,9}",
    "when": r"auto|always|never|no",
    "size": r"[+-]?[0-9]{1,12}[ckwbMG]?",
    "type": r"[fdlps](?:,[fdlps])*",
    "mode": r"[-/]?[0-7]{1,4}",
    "sort": r"name|size|time|version|extension|none",
    "time_style": r"full-iso|long-iso|iso|locale",
    "regex": r"posix-basic|posix-extended|posix-egrep|posix-awk|emacs|egrep|grep|sed",
    "untracked": r"no|normal|all",
    "porcelain": r"v1|v2",
    "range": r"[0-9]{1,9},[+-]?[0-9]{1,9}",
    "revision": r"[A-Za-z0-9_@^.][A-Za-z0-9_./@^~{}:+=,#-]{0,254}",
    "format": r"(?:(?!%[-+ ]?G)[^\0])*",  # %G… has a signature checked, by a program that the repository may name
    "word": r"[A-Za-z0-9][A-Za-z0-9:._+ -]{0,63}",
    "package": r"@?[A-Za-z0-9][A-Za-z0-9@._/*-]{0,213}",
}
_KINDS = {name: re.compile(pattern, re.ASCII) for name, pattern in KINDS.items()}


class Wrong(Exception):
    """Why the line is refused."""


class Table:
    """What may stand in the line of one program, or of one subcommand of git."""

    def __init__(
        self,
        flags: str = "",
        values: "Mapping[str, str] | None" = None,
        long: str = "",
        long_values: "Mapping[str, str] | None" = None,
        *,
        first: str = "",
        operands: str = PATH,
        behind: str = PATH,
        least: int = 0,
        before: "Sequence[str]" = (),
        dashes: bool = True,
        counted: bool = False,
    ) -> None:
        self.flags = frozenset(flags)
        """Letters that take no value, and may stand together."""
        self.values = dict(values or {})
        """Letters that take one."""
        self.long = {f"--{name}" for name in long.split()}
        self.long_values = {f"--{name}": kind for name, kind in (long_values or {}).items()}
        self.first = first
        """Option in whose place the first operand stands, as the pattern of grep does."""
        self.operands = operands
        self.behind = behind
        """What stands behind a `--` of the caller's."""
        self.least = least
        self.before = tuple(before)
        """What we always say ourselves."""
        self.dashes = dashes
        self.counted = counted
        """Whether `-5` is an option."""


LS = Table(
    "aAlhtrS1dRFisnogpcuQqbmxCkU",
    long="all almost-all human-readable recursive reverse directory size inode classify numeric-uid-gid full-time "
    "group-directories-first si quote-name literal escape",
    long_values={"sort": "sort", "time-style": "time_style"},
)
CAT = Table(
    "nbETsvAetu",
    long="number number-nonblank show-ends show-tabs squeeze-blank show-nonprinting show-all",
    least=1,
)
GREP = Table(
    "ivwxclLnHhoqsrEFGPaIbTU",
    {"e": TEXT, "m": "number", "A": "number", "B": "number", "C": "number"},
    "ignore-case invert-match word-regexp line-regexp count files-with-matches files-without-match line-number "
    "with-filename no-filename only-matching quiet silent no-messages recursive extended-regexp fixed-strings "
    "basic-regexp perl-regexp text byte-offset initial-tab",
    {"regexp": TEXT, "max-count": "number", "after-context": "number", "before-context": "number",
     "context": "number", "include": TEXT, "exclude": TEXT, "exclude-dir": TEXT},
    first="-e",
    before=("--devices=skip",),  # to read from a pipe would wait for ever
)  # fmt: skip
FIND_WORDS = {
    **dict.fromkeys(
        ["-print", "-print0", "-ls", "-empty", "-prune", "-quit", "-depth", "-xdev", "-mount"], FLAG
    ),
    **dict.fromkeys(["-readable", "-writable", "-executable", "-true", "-false"], FLAG),
    **dict.fromkeys(["-not", "!", "-a", "-and", "-o", "-or", "(", ")"], FLAG),
    **dict.fromkeys(["-name", "-iname", "-path", "-ipath", "-regex", "-iregex"], TEXT),
    **dict.fromkeys(["-mtime", "-mmin", "-atime", "-amin", "-ctime", "-cmin"], "signed"),
    **dict.fromkeys(["-maxdepth", "-mindepth"], "number"),
    "-size": "size",
    "-type": "type",
    "-perm": "mode",
    "-regextype": "regex",
    "-newer": PATH,
}
_SEEN = "stat shortstat numstat name-only name-status summary patch no-patch patch-with-stat raw minimal patience histogram"
_SPACE = "ignore-all-space ignore-space-change ignore-blank-lines ignore-space-at-eol"
_DIFF_OURS = ("--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "--no-color")
_CHOSEN = {
    "max-count": "number", "skip": "number", "since": "word", "until": "word", "after": "word", "before": "word",
    "author": TEXT, "committer": TEXT, "grep": TEXT, "format": "format", "pretty": "format", "date": "word",
    "decorate": "word", "unified": "number",
}  # fmt: skip
GIT = {
    "status": Table(
        "sbz",
        long="short branch long porcelain ignored show-stash no-renames",
        long_values={"porcelain": "porcelain", "untracked-files": "untracked"},
        before=("--ignore-submodules=all",),
    ),
    "log": Table(
        "pisw",
        {"n": "number", "S": TEXT, "G": TEXT, "U": "number"},
        f"oneline all branches tags remotes graph decorate no-merges merges first-parent reverse follow abbrev-commit "
        f"no-decorate topo-order date-order {_SEEN} {_SPACE}",
        _CHOSEN,
        operands="revision",
        before=_DIFF_OURS,
        counted=True,
    ),
    "show": Table(
        "psw",
        {"U": "number"},
        f"oneline abbrev-commit no-decorate {_SEEN} {_SPACE}",
        {"format": "format", "pretty": "format", "date": "word", "unified": "number"},
        operands="revision",
        before=_DIFF_OURS,
    ),
    "diff": Table(
        "pwbsz",
        {"U": "number"},
        f"cached staged word-diff check no-renames find-renames {_SEEN} {_SPACE}",
        {"unified": "number"},
        operands="revision",
        before=_DIFF_OURS,
    ),
    "branch": Table(
        "arvi",
        long="all remotes verbose list ignore-case",
        long_values={"contains": "revision", "no-contains": "revision", "merged": "revision", "no-merged": "revision"},
        operands="package",
        behind="package",
        before=("--list", "--no-color"),  # with it, what is named is looked for and never made
        dashes=False,
    ),
    "ls-files": Table(
        "cdmostz",
        long="cached deleted modified others stage exclude-standard full-name error-unmatch directory killed",
    ),
    "ls-tree": Table(
        "rtdlz",
        long="long name-only full-tree full-name",
        operands="revision",
        least=1,
        dashes=False,
    ),
    "rev-parse": Table(
        long="verify short abbrev-ref symbolic-full-name show-toplevel show-prefix is-inside-work-tree is-bare-repository",
        long_values={"short": "number"},
        operands="revision",
        behind="",
        dashes=False,
    ),
    "blame": Table(
        "wselft",
        {"L": "range"},
        "porcelain line-porcelain show-email show-name show-number root",
        {"date": "word"},
        operands="revision",
        least=1,
    ),
    "describe": Table(
        long="tags all always long exact-match first-parent",
        long_values={"abbrev": "number", "match": TEXT},
        operands="revision",
        behind="",
        dashes=False,
    ),
    "grep": Table(
        "ivwclLnhHEFGIpWq",
        {"e": TEXT, "A": "number", "B": "number", "C": "number"},
        "ignore-case invert-match word-regexp count files-with-matches name-only files-without-match line-number "
        "extended-regexp fixed-strings basic-regexp cached full-name break heading show-function quiet",
        {"max-depth": "signed"},
        first="-e",
        operands="revision",
        before=("--no-textconv", "--no-color", "--no-recurse-submodules"),
    ),
}  # fmt: skip
PNPM_OURS = ("--config.ignore-pnpmfile=true", "--config.manage-package-manager-versions=false")
_PNPM = Table(
    long="json long parseable prod dev no-optional", long_values={"depth": "number"}, operands="package", dashes=False,
    behind="", before=PNPM_OURS,
)  # fmt: skip
PNPM = {"list": _PNPM, "ls": _PNPM, "why": _PNPM}
NEUTRAL = (
    "--no-pager",
    "--no-optional-locks",
    "--no-replace-objects",
    "--literal-pathspecs",
    *(
        word
        for setting in (
            "core.fsmonitor=false",
            "core.untrackedCache=false",
            "core.hooksPath=/dev/null",
            "core.pager=cat",
            "core.editor=false",
            "core.askPass=false",
            "core.sshCommand=false",
            "core.attributesFile=/dev/null",
            "core.excludesFile=/dev/null",
            "core.alternateRefsCommand=false",
            "credential.helper=",
            "protocol.allow=never",
            "log.showSignature=false",
            "gc.auto=0",
            "maintenance.auto=false",
            "submodule.recurse=false",
            "status.submoduleSummary=false",
            "diff.ignoreSubmodules=all",
            "safe.bareRepository=explicit",
            "color.ui=false",
        )
        for word in ("-c", setting)
    ),
)
"""What git is told before its subcommand, whatever the repository says."""
_HARMLESS = re.compile(
    r"core\.(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|eol"
    r"|safecrlf|abbrev|quotepath|compression|sharedrepository|trustctime|checkstat|longpaths|sparsecheckout(?:cone)?"
    r"|commitgraph|multipackindex|preloadindex|untrackedcache|hookspath)"  # the last two NEUTRAL says otherwise
    r"|user\.(?:name|email|signingkey)|init\.defaultbranch|extensions\.objectformat|branch\..+|index\.(?:sparse|version)"
    r"|push\.(?:default|autosetupremote|followtags|gpgsign)|pull\.(?:rebase|ff)|fetch\.(?:prune|prunetags|parallel|all)"
    r"|commit\.(?:gpgsign|verbose)|tag\.(?:gpgsign|sort)|gpg\.format|merge\.(?:ff|conflictstyle)|rebase\.auto(?:stash|squash)"
    r"|rerere\.(?:enabled|autoupdate)|gui\.(?:wmstate|geometry)|lfs\.repositoryformatversion|lfs\..+\.(?:access|locksverify)"
    r"|remote\..+\.(?:url|pushurl|fetch|push|tagopt|prune|prunetags|mirror|skipdefaultupdate|skipfetchall|gh-resolved)"
    r"|submodule\..+\.(?:url|active)|submodule\.active",
    re.DOTALL,
)
"""Settings that neither start a program nor lead elsewhere in any line that is let through."""


# --- the line -----------------------------------------------------------------------------------------------------------


def line(command: str, arguments: "Sequence[object]", *, cwd: str, workspace: str) -> list[str]:
    """The arguments with which `command` is started.

    Args:
        cwd: the folder it starts in: the workspace, or one below a folder of it.

    Raises:
        Wrong: when the line is refused; it says why.
    """
    given = _texts(arguments)
    places = Places(cwd, workspace)
    match command:
        case "ls":
            options, operands = _read(given, LS, places)
            return [*options, "--", *(operands or places.all())]
        case "cat":
            options, operands = _read(given, CAT, places)
            return [*options, "--", *operands]
        case "grep":
            return _grep(given, places)
        case "find":
            return _find(given, places)
        case "git":
            return _git(given, places)
        case "pnpm":
            return _pnpm(given, places)
        case _:
            raise Wrong(f"{_shown(command)} is none of ls, cat, grep, find, git and pnpm")


def foreign_settings(names: "Iterable[str]") -> list[str]:
    """Of the settings of a repository those that are not known to be harmless, each once. Some name a program to start."""
    return sorted({name for name in names if not _HARMLESS.fullmatch(name)})


class Places:
    """Paths, seen from where the program starts."""

    def __init__(self, cwd: str, workspace: str) -> None:
        self._workspace = workspace
        self._top = cwd == workspace
        self._below = cwd[len(workspace) + 1 :]
        if not self._top and not (cwd.startswith(workspace + "/") and self._below.split("/")[0] in FOLDERS):
            raise Wrong(f"it can start in the workspace, or in {', '.join(FOLDERS)} of it")

    @property
    def is_top(self) -> bool:
        """Whether it starts in the workspace itself, of which it sees only some folders."""
        return self._top

    def all(self) -> list[str]:
        """What is meant where no path is given."""
        return [f"{self._workspace}/{folder}" for folder in FOLDERS] if self._top else ["."]

    def spelled(self, path: str) -> str:
        """`path` as the program is given it."""
        parts = plain_parts(path)
        if path.startswith("/"):
            if not path.startswith(self._workspace + "/"):
                raise Wrong(f"{_shown(path)} lies outside the workspace")
            parts = plain_parts(path[len(self._workspace) :])
        elif not self._top:
            return "/".join([".", *parts])
        if not parts and self._top and not path.startswith("/"):
            raise Wrong("the workspace as a whole cannot be named; name a folder of it, or none")
        if not parts or parts[0] not in FOLDERS:
            raise Wrong(f"{_shown(path)} is not in {', '.join(FOLDERS)} of the workspace")
        return "/".join([self._workspace, *parts])


def plain_parts(path: str) -> list[str]:
    """The names in a path, without what changes nothing."""
    if not path or path == "-":
        raise Wrong(f"{_shown(path)} is no path; a file of that name is ./-")
    if len(path.encode()) > LONGEST_PATH:
        raise Wrong("a path is too long")
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise Wrong(f"{_shown(path)} holds `..`, which leads elsewhere; write the path that is meant")
    if len(parts) > DEEPEST or any(len(part.encode()) > LONGEST_NAME for part in parts):
        raise Wrong("a path is too long")
    return parts


def _texts(arguments: "Sequence[object]") -> list[str]:
    if len(arguments) > MOST_ARGUMENTS:
        raise Wrong(f"there are {len(arguments):,} arguments, and {MOST_ARGUMENTS} are the most")
    texts = [each for each in arguments if isinstance(each, str)]
    if len(texts) != len(arguments):
        raise Wrong("every argument is a text of its own")
    try:
        size = sum(len(each.encode()) for each in texts)
    except UnicodeEncodeError:
        raise Wrong("an argument is no text") from None
    if size > MOST_BYTES:
        raise Wrong(f"the arguments have {size:,} bytes, and {MOST_BYTES:,} are the most")
    for each in texts:
        if not each.isprintable():
            raise Wrong(f"{_shown(each)} holds a line end or a character that nobody can see")
    return texts


def _read(given: list[str], table: Table, places: Places) -> tuple[list[str], list[str]]:
    """Options as they are passed on, and operands."""
    options, before, after = _sorted(given, table)
    if table.first and not any(option in (table.first, "--regexp") for option, _ in options):
        if not before and not after:
            raise Wrong("there is nothing to look for; give a pattern first")
        pattern = before.pop(0) if before else after.pop(0)
        options.append((table.first, pattern))
    words = [*table.before]
    for option, value in options:
        if value is None:
            words.append(option)
        else:
            words += [f"{option}={value}"] if option.startswith("--") else [option, value]
    operands = [*(_operand(each, table.operands, places) for each in before)]
    if after and not table.behind:
        raise Wrong(f"{_shown(after[0])} is not taken here")
    paths = [*(_operand(each, table.behind, places) for each in after)]
    if len(operands) + len(paths) < table.least:
        raise Wrong("name what to look at")
    if table.operands == table.behind or not table.dashes:
        return words, [*operands, *paths]
    return words, [*operands, "--", *paths]


def _sorted(given: list[str], table: Table) -> tuple[list[tuple[str, str | None]], list[str], list[str]]:
    """Options with their values, what stands before a `--`, and what behind."""
    options: list[tuple[str, str | None]] = []
    operands: list[str] = []
    rest = list(given)
    while rest:
        word = rest.pop(0)
        if word == "--":
            return options, operands, rest
        if word.startswith("--"):
            options.append(_long(word, rest, table))
        elif word.startswith("-") and word != "-":
            options += _short(word, rest, table)
        else:
            operands.append(word)
    return options, operands, []


def _long(word: str, rest: list[str], table: Table) -> tuple[str, str | None]:
    name, sign, value = word.partition("=")
    if not sign and name in table.long:
        return name, None
    kind = table.long_values.get(name)
    if kind is None:
        raise Wrong(f"{_shown(name)} is not an option that is taken here; names are written out in full")
    if not sign:
        value = _next(name, rest)
    _require(value, kind, name)
    return name, value


def _short(word: str, rest: list[str], table: Table) -> list[tuple[str, str | None]]:
    letter, attached = word[1], word[2:]
    if table.counted and _KINDS["number"].fullmatch(word[1:]):
        return [("-n", word[1:])]
    if letter in table.values:
        value = attached or _next(word, rest)
        _require(value, table.values[letter], f"-{letter}")
        return [(f"-{letter}", value)]
    for each in word[1:]:
        if each not in table.flags:
            raise Wrong(f"{_shown(f'-{each}')} in {_shown(word)} is not an option that is taken here")
    return [(f"-{each}", None) for each in word[1:]]


def _next(option: str, rest: list[str]) -> str:
    if not rest or rest[0].startswith("-"):
        raise Wrong(f"{_shown(option)} needs a value behind it, and one that does not begin with `-`")
    return rest.pop(0)


def _require(value: str, kind: str, option: str) -> None:
    if kind == TEXT:
        return
    if not _KINDS[kind].fullmatch(value):
        raise Wrong(f"{_shown(option)} does not take {_shown(value)}")


def _operand(value: str, kind: str, places: Places) -> str:
    if kind == PATH:
        return places.spelled(value)
    if not _KINDS[kind].fullmatch(value):
        raise Wrong(f"{_shown(value)} is no {kind}; paths stand behind `--`")
    return value


def _grep(given: list[str], places: Places) -> list[str]:
    options, operands = _read(given, GREP, places)
    recursive = "-r" in options or "--recursive" in options
    if not operands and not recursive:
        raise Wrong("name the files to look in, or look through folders with -r")
    return [*options, "--", *(operands or places.all())]


def _find(given: list[str], places: Places) -> list[str]:
    rest, starts = list(given), list[str]()
    while rest and not rest[0].startswith("-") and rest[0] not in ("!", "(", ")"):
        starts.append(places.spelled(rest.pop(0)))
    words: list[str] = []
    while rest:
        word = rest.pop(0)
        kind = FIND_WORDS.get(word)
        if kind is None:
            raise Wrong(f"{_shown(word)} is not a test or an action that is taken here")
        words.append(word)
        if kind == FLAG:
            continue
        if not rest or (kind in (TEXT, PATH) and rest[0].startswith("-")):
            raise Wrong(f"{_shown(word)} needs a value behind it, and one that does not begin with `-`")
        value = rest.pop(0)
        _require(value, TEXT if kind == PATH else kind, word)
        words.append(places.spelled(value) if kind == PATH else value)
    return ["-P", *(starts or places.all()), *words]


def _git(given: list[str], places: Places) -> list[str]:
    """Only the part from the subcommand on: which repository it is has to be looked at first."""
    table = GIT.get(given[0]) if given else None
    if table is None:
        said = _shown(given[0]) if given else "nothing"
        raise Wrong(f"git is asked one of {', '.join(GIT)} first, and not {said}")
    if places.is_top:
        raise Wrong("git needs a cwd: the folder of the repository, or one below")
    options, operands = _read(given[1:], table, places)
    dashes = ["--"] if table.dashes and table.operands == table.behind else []
    return [given[0], *options, *dashes, *operands]


def _pnpm(given: list[str], places: Places) -> list[str]:
    if given == ["--version"] or given == ["-v"]:
        return ["--version"]
    table = PNPM.get(given[0]) if given else None
    if table is None:
        said = _shown(given[0]) if given else "nothing"
        raise Wrong(f"pnpm is asked list, ls, why or --version, and not {said}")
    if places.is_top:
        raise Wrong("pnpm needs a cwd: the folder of the project")
    options, operands = _read(given[1:], table, places)
    return [given[0], *options, *operands]


def _shown(text: str) -> str:
    return ascii(text if len(text) <= 80 else text[:80] + "…")
