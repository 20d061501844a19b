"""Shell actions without a shell: the line becomes one program with its arguments, or it is refused."""

import json
import subprocess
from typing import Any

import pytest

from metier.dialects.compiled import Compiled
from metier.dialects.friday import compile_skill
from metier.dialects.shell_words import NoWords, split
from metier.model.entry import Command
from metier.model.permission import BASE_DIR
from metier.model.skill import Tool
from metier.sandbox.job_argv import filled

PARAMETERS = {
    "type": "object",
    "properties": {"x": {"type": "string"}, "o": {"type": "object"}},
    "required": ["x", "o"],
}
UNQUOTED = ["|", "&", ";", "<", ">", "(", ")", "`", "$", "*", "?", "[", "{", "}"]
CHAINS = [
    "a | b",
    "a || b",
    "a && b",
    "a & b",
    "a; b",
    "a > b",
    "a >> b",
    "a < b",
    "a 2>&1",
    "a <(b)",
    "a <<EOF",
    "a <<< b",
]
EXPANSIONS = [
    "a $(b)",
    "a `b`",
    "a $B",
    "a ${B}",
    'a "$B"',
    'a "`b`"',
    'a "$(b)"',
    "a *.txt",
    "a b?",
    "a [ab]",
    "a ~/b",
    "a {b,c}",
]


def compiled(command: Any, **more: Any) -> Compiled:
    fields = {
        "id": "desk",
        "description": "d",
        "actions": [{"id": "do", "type": "shell", "command": command, **more}],
        "tools": [{"name": "do", "description": "Does.", "parameters": PARAMETERS}],
    }
    return compile_skill(
        json.dumps(fields).encode(), folder="desk", manifest="skill.json", location="", source="user"
    )


def tool_of(command: str, **more: Any) -> Tool:
    found = compiled(command, **more)
    assert found.skill is not None, [note.message for note in found.diagnostics]
    (tool,) = found.skill.tools
    return tool


def argv_of(command: str) -> tuple[str, ...]:
    entry = tool_of(command).entry
    assert isinstance(entry, Command)
    return entry.argv


def refused(command: Any, **more: Any) -> str:
    found = compiled(command, **more)
    assert found.skill is None
    return "\n".join(f"{note.code}: {note.message}" for note in found.diagnostics if note.severity == "error")


# The line


@pytest.mark.parametrize(
    "line",
    [
        "ls",
        "  ls \t -l  ",
        "ls 'a b' \"c d\" e\\ f",
        "echo '' \"\"",
        "echo a'b'\"c\"d",
        "echo 'a\"b' \"c'd\"",
        'echo "a\\"b" "c\\\\d" "e\\nf" "\\$g"',
        "echo a\\'b \\\\ \\$HOME \\*",
        "echo -- --x=y a,b a:b a@b a%b a+b a^b a]b a=b a/b a!b a~b a#b",
        "echo '|' ';' '$(x)' '`x`' '*' '~' '{a,b}' '#'",
        "echo é 日本",
    ],
)
def test_the_words_are_those_a_posix_shell_would_pass(line: str) -> None:
    told = subprocess.run(
        ["/bin/sh", "-c", f"printf '%s\\0' {line.strip()}"], capture_output=True, check=True
    )
    assert [*argv_of(line), ""] == told.stdout.decode().split("\0")


@pytest.mark.parametrize("sign", [*UNQUOTED, "~", "{a,b}", "!", "&&", "$()", "<(", ">"])
def test_cmd_33_a_metacharacter_in_quotes_is_one_argument_as_it_stands(sign: str) -> None:
    assert argv_of(f"echo '{sign}'") == ("echo", sign)
    if not set("$`") & set(sign):
        assert argv_of(f'echo "{sign}"') == ("echo", sign)


@pytest.mark.parametrize("sign", UNQUOTED)
def test_each_sign_a_shell_would_act_on_is_refused_with_its_place(sign: str) -> None:
    said = refused(f"echo a{sign}b")
    assert said.startswith("shell_refused")
    assert f"{sign!r} at position 7" in said
    assert argv_of(f"echo a\\{sign}b") == ("echo", f"a{sign}b"), "after a backslash it is a letter"


@pytest.mark.parametrize("line", [*CHAINS, *EXPANSIONS, "a #b", "~/a", "#a"])
def test_what_needs_a_shell_is_refused(line: str) -> None:
    assert "position" in refused(line)


@pytest.mark.parametrize(
    "line", ["cat <<EOF\nx\nEOF", "cat << 'EOF'", "cat a | sh", "cat a|sh", "cat a |& sh"]
)
def test_cmd_35_a_heredoc_or_a_pipe_is_refused(line: str) -> None:
    assert refused(line).startswith("shell_refused")
    assert argv_of("cat a")


@pytest.mark.parametrize("joint", [";", "&&", "||", "|", "&", "\n"])
def test_cmd_36_a_chain_of_any_length_is_refused(joint: str) -> None:
    for length in (2, 51, 300):
        assert refused(joint.join(["true"] * length)).startswith("shell_refused")
    assert argv_of("true") == ("true",)


@pytest.mark.parametrize(
    "sign", ["\n", "\r", "\v", "\f", "\x00", "\x1b", "\x85", "\u2028", "\u2029", "\u200b", "\u202e"]
)
def test_cmd_34_a_line_break_or_an_unseen_sign_in_a_word_is_refused(sign: str) -> None:
    for line in (f"echo a{sign}b", f"echo 'a{sign}b'", f'echo "a{sign}b"'):
        assert refused(line).startswith("shell_refused")


@pytest.mark.parametrize("blank", ["\u00a0", "\u3000", "\u2003"])
def test_a_blank_that_no_shell_takes_for_one_is_refused_unless_quoted(blank: str) -> None:
    assert "position" in refused(f"echo a{blank}b")
    assert argv_of(f"echo 'a{blank}b'") == ("echo", f"a{blank}b")


@pytest.mark.parametrize("line", ["echo 'a", 'echo "a', "echo a\\", 'echo "a\\"'])
def test_a_quote_that_is_never_closed_is_refused(line: str) -> None:
    assert refused(line).startswith("shell_refused")


@pytest.mark.parametrize("line", ["", "   ", None, 5, ["ls"], "x" * 2_001])
def test_what_is_no_line_is_refused(line: Any) -> None:
    assert refused(line)


def test_a_line_of_two_thousand_characters_is_taken_and_line_ends_around_it_do_not_count() -> None:
    assert argv_of("ls " + "x" * 1_997)
    assert argv_of("ls -l\n") == ("ls", "-l")


def test_nothing_but_blanks_is_no_command() -> None:
    assert isinstance(split(" \t "), NoWords)


# The program


@pytest.mark.parametrize(
    "program", ["/bin/ls", "./ls", "../ls", "a/b", ".", "..", "-ls", "''", "A=b", "A=b ls", "'l s'", "!"]
)
def test_cmd_37_the_program_is_a_plain_name(program: str) -> None:
    assert refused(f"{program} x").startswith("shell_refused")


@pytest.mark.parametrize("program", ["gіt", "git\u200b", "'git '", "ｇit"])
def test_cmd_40_a_program_that_only_looks_like_another_is_refused(program: str) -> None:
    assert refused(f"{program} status").startswith("shell_refused")
    assert argv_of("git status")[0] == "git"


def test_the_program_is_declared_and_nothing_else_is() -> None:
    tool = tool_of("wc -l notes.txt")
    assert tool.permissions.plain() == {"binaries": ["wc"], "reads": [BASE_DIR]}
    assert (tool.effect, tool.risk, tool.minimum_trust) == ("act", "medium", "supervised_auto")


@pytest.mark.parametrize("line", ["sh run.sh", "python3 a.py", "env ls", "xargs ls", "node a.js"])
def test_shells_interpreters_and_launchers_are_of_high_risk(line: str) -> None:
    assert tool_of(line).risk == "high"


def test_writing_somewhere_is_of_high_risk() -> None:
    assert tool_of("touch a", allowedPaths=["notes"]).risk == "high"
    assert tool_of("touch a", allowedPaths=[BASE_DIR]).risk == "medium", "its own folder is only read"


# Places


@pytest.mark.parametrize("line", ["echo {{x}}", "echo {{ x }}", "echo '{{x}}'", 'echo "{{ x }}"'])
def test_a_place_is_one_whole_argument_however_it_is_quoted(line: str) -> None:
    assert argv_of(line) == ("echo", "{{x}}")


@pytest.mark.parametrize(
    "line",
    [
        "{{x}}",
        "{{x}} a",
        "'{{x}}' a",
        "echo a{{x}}",
        "echo {{x}}a",
        "echo --to={{x}}",
        "echo '{{x}} b'",
        "echo {{x}}{{x}}",
        "echo {{unknown}}",
        "echo {{o}}",
        "echo {{secret:KEY}}",
        "l{{x}}",
    ],
)
def test_any_other_place_is_refused(line: str) -> None:
    assert refused(line).startswith("place_refused")


@pytest.mark.parametrize(
    "line",
    [
        "sh -c {{x}}",
        "bash -lc {{x}}",
        "python3 -c {{x}}",
        "node -e {{x}}",
        "awk {{x}} a.txt",
        "sh -c 'eval \"$0\"' {{x}}",
        "python3 {{x}}",
        "python3 -Wx.py {{x}}",
        "node -r./x.js {{x}}",
        "python3 -c'x.py;' {{x}}",
        "python3 'a.py b' {{x}}",
        "sed -n {{x}} b.txt",
        "sed -e {{x}} b.txt",
        "sed -n -- {{x}} b.txt",
        "vim -c {{x}}",
        "ed {{x}}",
        "sqlite3 a.db {{x}}",
        "make {{x}}",
        "npm run {{x}}",
        "uv run -- {{x}}",
        "PNPM run {{x}}",
        "vim.basic -es -c {{x}} -c own",
        "vim.tiny {{x}}",
        "vim.gtk3 {{x}}",
        "sed-4.8 -n {{x}} b.txt",
        "sqlite3.exe a.db {{x}}",
        "pip3.11 install {{x}}",
        "make-4.4 {{x}}",
        "awk report.awk {{x}}",
        "gdb go.py {{x}}",
        "g++-12 {{x}}",
        "mail {{x}}",
    ],
)
def test_cmd_32_no_argument_becomes_code(line: str) -> None:
    assert "could become code" in refused(line)
    assert argv_of(line.replace("{{x}}", "own"))[-1] in ("own", "a.txt", "b.txt"), (
        "what the author wrote is his own"
    )


@pytest.mark.parametrize(
    "line",
    [
        "env {{x}}",
        "env -iu.sh {{x}}",
        "xargs {{x}}",
        "xargs a.sh {{x}}",
        "timeout 5 sh -c {{x}}",
        "nice python3 report.py {{x}}",
        "ssh host.sh {{x}}",
        "npx a.js {{x}}",
    ],
)
def test_cmd_29_no_argument_goes_to_what_starts_other_programs(line: str) -> None:
    assert "could become a program" in refused(line)


def test_cmd_29_the_caller_would_choose_the_program() -> None:
    ended = subprocess.run(["env", "-iu.sh", "/bin/echo", "chosen"], capture_output=True, text=True)
    assert ended.stdout == "chosen\n"


@pytest.mark.parametrize(
    "line",
    [
        "git {{x}}",
        "git submodule foreach {{x}}",
        "git submodule foreach -- {{x}}",
        "git bisect run {{x}}",
        "git config core.pager {{x}}",
        "git difftool {{x}}",
        "git clone {{x}}",
        "git.exe bisect run {{x}}",
        "git-submodule foreach {{x}}",
        "tar {{x}} a.tar",
        "tar xIf {{x}} a.tar",
        "bsdtar-3.7 {{x}}",
        "7z {{x}} a.7z",
        "find.exe . -exec {{x}} +",
        "rsync-3.2 -e {{x}} a b",
        "git -c {{x}} status",
        "git -C notes {{x}}",
        "git log -n {{x}}",
        "tar -xf a.tar --to-command {{x}}",
        "sort --compress-program {{x}} a.txt",
        "rsync -e {{x}} a b",
        "rg --pre {{x}} tea",
        "find . -name a -exec {{x}} +",
        "fd -x {{x}}",
    ],
)
def test_cmd_32_no_argument_is_the_value_of_an_option_that_may_name_a_program(line: str) -> None:
    assert "place_refused" in refused(line)


@pytest.mark.parametrize(
    "line",
    [
        "git log {{x}}",
        "git log -n 3 -- {{x}}",
        "git diff own {{x}}",
        "git ls-files {{x}}",
        "tar tf {{x}}",
        "tar -tf -- {{x}}",
        "sort a.txt {{x}}",
        "find . -name {{x}}",
        "weather {{x}}",
    ],
)
def test_an_argument_for_a_program_that_may_start_others_is_of_high_risk(line: str) -> None:
    assert tool_of(line).risk == "high"
    assert tool_of(line.replace("{{x}}", "own")).risk == "medium"
    assert tool_of("wc -w -- {{x}}").risk == "medium"


def test_an_argument_may_go_to_a_script_that_the_skill_names() -> None:
    assert argv_of("python3 report.py {{x}}") == ("python3", "report.py", "{{x}}")


@pytest.mark.parametrize("value", ["a b", "; rm -rf x", "$(id)", "`id`", "| sh", "> x", "{{x}}", "a\nb", "'"])
def test_whatever_a_caller_sends_stays_one_argument(value: str) -> None:
    assert filled(argv_of("echo a {{x}} b"), {"x": value}) == ("echo", "a", value, "b")


# Places on the disk


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("/srv/notes", "/srv/notes"),
        ("/srv/notes/", "/srv/notes"),
        ("/srv/./notes//x", "/srv/notes/x"),
        ("notes", "{workspace}/notes"),
        ("./notes/", "{workspace}/notes"),
        (".", "{workspace}"),
        ("{workspace}/notes", "{workspace}/notes"),
    ],
)
def test_a_path_is_absolute_or_below_the_workspace(written: str, path: str) -> None:
    for more in ({"cwd": written}, {"allowedPaths": [written]}, {"cwd": written, "allowedPaths": [written]}):
        tool = tool_of("ls", **more)
        assert tool.permissions.writes == {path}
        assert tool.permissions.reads == {path, BASE_DIR}
        assert isinstance(tool.entry, Command)
        assert tool.entry.cwd == (path if "cwd" in more else "")


@pytest.mark.parametrize(
    "path",
    [
        "..",
        "../x",
        "a/../b",
        "/a/..",
        "/",
        "//",
        "/.",
        "~",
        "~/x",
        "$HOME",
        "a*",
        "/tmp/?",
        "{{x}}",
        "{home}/x",
        "a\nb",
        "a\u200bb",
        "a\x00b",
        " " * 0,
        5,
        "x" * 1001,
    ],
)
def test_cmd_42_a_path_that_leads_elsewhere_is_refused(path: Any) -> None:
    assert refused("ls", allowedPaths=[path])
    if path != "":
        assert refused("ls", cwd=path)


def test_the_place_it_starts_in_lies_within_the_allowed_paths() -> None:
    tool = tool_of("ls", cwd="notes/deep", allowedPaths=["notes", "/srv"])
    assert tool.permissions.writes == {"{workspace}/notes", "/srv"}
    for cwd, allowed in (("notes", ["notes/deep"]), ("notes2", ["notes"]), ("notes", [])):
        assert "bad_path" in refused("ls", cwd=cwd, allowedPaths=allowed)


def test_no_allowed_path_means_its_own_folder_only() -> None:
    assert tool_of("ls", allowedPaths=[]).permissions.plain() == {"binaries": ["ls"], "reads": [BASE_DIR]}


def test_its_own_folder_is_read_and_never_written() -> None:
    tool = tool_of("python3 report.py", cwd=BASE_DIR)
    assert isinstance(tool.entry, Command)
    assert tool.entry.cwd == BASE_DIR
    assert tool.permissions.writes == frozenset()
