"""Has one of six programs run that look at files: its line is held to a grammar, and it starts where it is told to.

Beside this code lies `shell_grammar`, which says what may stand in a line. Here is what needs a look at the disk: the folder
it starts in, links on the way to a path, and which repository git is to look at. The program itself runs in a sandbox of its
own that has only these folders, to read, and no environment. Standard library only.
"""

import json
import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from metier.bundled.shell_safe.shell_grammar import (
        FOLDERS,
        NEUTRAL,
        Wrong,
        foreign_settings,
        line,
        plain_parts,
    )
else:
    from shell_grammar import FOLDERS, NEUTRAL, Wrong, foreign_settings, line, plain_parts

MOST_TOLD = 400_000
"""What each stream may have in JSON; a text of odd characters is longer there."""


def execute(inputs: "dict[str, Any]", context: "Any") -> "dict[str, Any]":
    """Both streams and the exit code of one program."""
    command: str = inputs["command"]
    arguments: list[object] = inputs.get("args") or []
    try:
        cwd = folder(inputs.get("cwd") or "", context.workspace)
        words = line(command, arguments, cwd=cwd, workspace=context.workspace)
        refuse_links(words, cwd, context.workspace)
        if command == "git":
            words = [*repository(cwd, words, context), *words]
        started_in = "" if cwd == context.workspace else cwd
        answer = run(context, [command, *words], started_in)
    except Wrong as wrong:
        return {"success": False, "error": f"{command!a} is not run: {wrong}"}
    except context.Error as error:
        if error.name == "NotFound":
            why = "there is no such program where only root and the operator can write; the others are not concerned"
            return {"success": False, "error": f"{command!a} is not run: {why}"}
        return {"success": False, "error": f"{command!a} did not run to its end: {error}"}
    out, err = fitting(answer["stdout"]), fitting(answer["stderr"])
    return {
        "success": True,
        "stdout": out,
        "stderr": err,
        "exitCode": answer["exit_code"],
        "truncated": answer["truncated"] or (out, err) != (answer["stdout"], answer["stderr"]),
    }


def run(context: "Any", argv: list[str], cwd: str) -> "dict[str, Any]":
    more = {"cwd": cwd} if cwd else {}
    return context.exec(argv, whole=True, **more).wait()


def fitting(text: str) -> str:
    """As much of the beginning as can be given back."""
    while (size := len(json.dumps(text))) > MOST_TOLD:
        text = text[: len(text) * MOST_TOLD // size - 1]
    return text


def folder(given: str, workspace: str) -> str:
    """Where the program starts: a real folder, reached without any link."""
    inner = given
    if given.startswith("/"):
        if given.rstrip("/") != workspace and not given.startswith(workspace + "/"):
            raise Wrong("cwd lies outside the workspace")
        inner = given[len(workspace) :]
    parts = plain_parts(inner) if inner else []
    if not parts:
        return workspace
    if parts[0] not in FOLDERS:
        raise Wrong(f"it can start in the workspace, or in {', '.join(FOLDERS)} of it")
    path = "/".join([workspace, *parts])
    kind = kind_of(path, workspace)
    if kind == "link":
        raise Wrong("cwd is reached by a link, and links are not followed")
    if kind != "folder":
        raise Wrong("cwd is not a folder that is there")
    return path


def refuse_links(words: list[str], cwd: str, workspace: str) -> None:
    """A path with a link on its way leads elsewhere. What the program meets by itself it does not follow."""
    for word in words:
        if word.startswith((workspace + "/", "./")):
            path = os.path.normpath(os.path.join(cwd, word))
            kind = kind_of(path, workspace)
            if kind in ("link", "other"):
                raise Wrong(
                    f"{word[:80]!a} is a {kind if kind == 'link' else 'pipe or device'}, or behind one"
                )


def paths_of(words: list[str]) -> list[str]:
    """What stands behind the last `--` of a line; a path is never spelled like it."""
    return words[len(words) - words[::-1].index("--") :] if "--" in words else []


def kind_of(path: str, workspace: str) -> str:
    """`link` where one lies on the way, else `folder`, `file`, `other`, or nothing when it is not there."""
    found, here = "", workspace
    for part in path[len(workspace) + 1 :].split("/"):
        here = f"{here}/{part}"
        try:
            mode = os.lstat(here).st_mode
        except OSError:
            return ""
        if stat.S_ISLNK(mode):
            return "link"
        found = "folder" if stat.S_ISDIR(mode) else "file" if stat.S_ISREG(mode) else "other"
    return found


def repository(cwd: str, words: list[str], context: "Any") -> list[str]:
    """What git is told first: which repository it is, and settings that start nothing.

    One whose own settings are not all known to be harmless is refused: there are too many that name a program. So is a path
    outside its work tree: of such git compares the files themselves.
    """
    top = cwd
    while not os.path.lexists(f"{top}/.git"):
        top = os.path.dirname(top)
        if len(top) <= len(context.workspace):
            raise Wrong("cwd lies in no repository")
    for word in paths_of(words):
        if word.startswith("/") and not f"{word}/".startswith(f"{top}/"):
            raise Wrong(f"{word[:80]!a} lies outside the repository")
    git = f"{top}/.git"
    if kind_of(git, context.workspace) != "folder":
        raise Wrong("the repository lies elsewhere: its .git is no folder")
    for name in ("commondir", "config.worktree"):
        if os.path.lexists(f"{git}/{name}"):
            raise Wrong(f"the repository has settings elsewhere: there is a {name} in its .git")
    if kind_of(f"{git}/config", context.workspace) != "file":
        raise Wrong("the repository has no settings of its own: there is no file config in its .git")
    asked = [
        "git",
        "--no-pager",
        "config",
        "--file",
        f"{git}/config",
        "--no-includes",
        "-z",
        "--name-only",
        "--list",
    ]
    told = run(context, asked, "")
    if told["exit_code"] != 0 or told["truncated"]:
        raise Wrong("the settings of the repository cannot be read")
    foreign = foreign_settings(name for name in told["stdout"].split("\0") if name)
    if foreign:
        shown = ", ".join(ascii(name[:60]) for name in foreign[:5])
        raise Wrong(
            f"the repository has settings of its own that may start a program or lead elsewhere: {shown}"
        )
    return [f"--git-dir={git}", f"--work-tree={top}", *NEUTRAL]
