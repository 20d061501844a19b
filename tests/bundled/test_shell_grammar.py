"""What may stand in a line of shell_safe, case by case. Each attack is also made without the grammar, and works there."""

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from core_desk import code_of

GRAMMAR = code_of("shell_safe", "shell_grammar")
TOP = "/w"
HERE = "/w/docs/project"


def line(command: str, *arguments: object, cwd: str = HERE) -> list[str]:
    return GRAMMAR.line(command, arguments, cwd=cwd, workspace=TOP)


def refused(command: str, *arguments: object, cwd: str = HERE) -> str:
    with pytest.raises(GRAMMAR.Wrong) as caught:
        line(command, *arguments, cwd=cwd)
    said = str(caught.value)
    assert said.isprintable()
    return said


class Repository:
    """A repository of the test's own, in which an attack is made without anything in its way."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.proof = folder.parent / "proof"
        self.program = folder.parent / "program"
        self.program.write_text(f"#!/bin/sh\necho ran >> {self.proof}\n")
        self.program.chmod(0o755)
        folder.mkdir()
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.email", "tea@example.com")
        self.git("config", "user.name", "tea")
        (folder / "file").write_text("one\n")
        self.git("add", "file")
        self.git("commit", "-qm", "first")
        (folder / "file").write_text("two\n")

    def git(self, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
        clean = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder.parent),
            "GIT_TERMINAL_PROMPT": "0",
            **environ,
        }
        return subprocess.run(
            ["git", *arguments],
            cwd=self.folder,
            env=clean,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )

    def ran(self, *arguments: str, **environ: str) -> bool:
        """Whether the program runs when git is simply started like this."""
        self.proof.unlink(missing_ok=True)
        self.git(*arguments, **environ)
        return self.proof.exists()


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(Path(os.path.realpath(tmp_path)) / "repository")


# --- what goes through, and how


@pytest.mark.parametrize(
    ("command", "given", "made"),
    [
        ("ls", ["-la", "a"], ["-l", "-a", "--", "./a"]),
        ("ls", [], ["--", "."]),
        ("ls", ["--sort=time", "-1"], ["--sort=time", "-1", "--", "."]),
        ("cat", ["--", "-n"], ["--", "./-n"]),
        ("cat", ["./-"], ["--", "./-"]),
        ("grep", ["tea", "a", "b"], ["--devices=skip", "-e", "tea", "--", "./a", "./b"]),
        ("grep", ["-rn", "--include=*.md", "tea"], ["--devices=skip", "-r", "-n", "--include=*.md", "-e", "tea", "--", "."]),
        ("grep", ["-e", "tea", "a"], ["--devices=skip", "-e", "tea", "--", "./a"]),
        ("grep", ["-C2", "--", "-x", "a"], ["--devices=skip", "-C", "2", "-e", "-x", "--", "./a"]),
        ("find", ["a", "-name", "*.md", "-mtime", "-3"], ["-P", "./a", "-name", "*.md", "-mtime", "-3"]),
        ("find", ["(", "-type", "f", "-o", "-empty", ")"], ["-P", ".", "(", "-type", "f", "-o", "-empty", ")"]),
        ("git", ["status", "-s"], ["status", "--ignore-submodules=all", "-s", "--"]),
        ("git", ["branch"], ["branch", "--list", "--no-color"]),
        ("git", ["rev-parse", "--abbrev-ref", "HEAD"], ["rev-parse", "--abbrev-ref", "HEAD"]),
        ("pnpm", ["--version"], ["--version"]),
        ("pnpm", ["why", "left-pad"], ["why", *GRAMMAR.PNPM_OURS, "left-pad"]),
    ],
)  # fmt: skip
def test_an_ordinary_line_is_put_in_order(command: str, given: list[str], made: list[str]) -> None:
    assert line(command, *given) == made


def test_git_gets_revisions_before_and_paths_behind_the_dashes() -> None:
    made = line("git", "log", "-3", "--oneline", "main..next", "--", "a")
    assert made[0] == "log"
    assert made[-6:] == ["-n", "3", "--oneline", "main..next", "--", "./a"]
    assert made[1:5] == ["--no-ext-diff", "--no-textconv", "--ignore-submodules=all", "--no-color"]


def test_from_the_workspace_itself_paths_are_whole_and_lie_in_its_folders() -> None:
    assert line("cat", "docs/a", cwd=TOP) == ["--", "/w/docs/a"]
    assert line("ls", cwd=TOP) == ["--", *(f"/w/{name}" for name in GRAMMAR.FOLDERS)]
    for path in ("brain/x", "a", ".", "packages", "/w", "/w/brain/x", "/w-evil/docs/x", "docs/../brain/x"):
        refused("cat", path, cwd=TOP)
    assert line("cat", "/w/memory/x") == ["--", "/w/memory/x"]


# --- git


def test_cmd_01_a_setting_on_the_line_is_refused(repository: Repository) -> None:
    setting = f"core.fsmonitor={repository.program}"
    for given in (["-c", setting, "status"], ["-c", setting], ["--config-env=core.fsmonitor=X", "status"]):
        refused("git", *given)
    refused("git", "status", "-c", setting)
    assert repository.ran("-c", setting, "status")


def test_cmd_03_an_alias_is_no_subcommand(repository: Repository) -> None:
    refused("git", "-c", f"alias.x=!{repository.program}", "x")
    repository.git("config", "alias.x", f"!{repository.program}")
    refused("git", "x")
    assert repository.ran("x")


def test_cmd_04_no_line_names_the_program_for_a_connection(repository: Repository) -> None:
    given = ["-c", f"core.sshCommand={repository.program}", "ls-remote", "ssh://host.invalid/x"]
    refused("git", *given)
    refused("git", *given[2:])
    assert repository.ran(*given)


def test_cmd_05_no_line_names_a_program_for_differences(repository: Repository) -> None:
    given = ["-c", f"diff.external={repository.program}", "diff"]
    refused("git", *given)
    for option in ("--ext-diff", "--textconv"):
        for subcommand in ("diff", "log", "show"):
            refused("git", subcommand, option)
    assert {"--no-ext-diff", "--no-textconv"} <= {
        *line("git", "diff"),
        *line("git", "log"),
        *line("git", "show"),
    }
    assert repository.ran(*given)


@pytest.mark.parametrize("option", ["-O{}", "--open-files-in-pager={}", "--open-f={}"])
def test_cmd_06_matches_are_opened_in_no_program(repository: Repository, option: str) -> None:
    given = ["grep", option.format(repository.program), "two"]
    refused("git", *given)
    assert repository.ran(*given)


@pytest.mark.parametrize(
    "given", [["log", "--output={}"], ["diff", "--no-index", "--output={}", "a", "b"], ["diff", "--outp={}"]]
)
def test_cmd_07_nothing_is_written_to_a_file(repository: Repository, given: list[str]) -> None:
    full = [each.format(repository.proof) for each in given]
    refused("git", *full)
    refused("git", given[0], "--output", str(repository.proof))
    (repository.folder / "a").write_text("a")
    (repository.folder / "b").write_text("b")
    repository.git(*full)
    assert repository.proof.exists() == (given[1] != "--outp={}"), (
        "this git takes no short form of it, others may"
    )


def test_cmd_08_no_line_replaces_a_program_of_the_other_side(repository: Repository) -> None:
    given = ["ls-remote", f"--upload-pack={repository.program}", "."]
    refused("git", *given)
    refused("git", "archive", "--remote=.", f"--exec={repository.program}", "HEAD")
    assert repository.ran(*given)


@pytest.mark.parametrize("url", ["ext::sh -c {}", "file://{}", "fd::3", "ssh://host/x", "https://host/x"])
def test_cmd_09_nothing_is_fetched_by_any_transport(repository: Repository, url: str) -> None:
    for subcommand in ("clone", "fetch", "pull", "push", "ls-remote", "remote", "submodule", "archive"):
        refused("git", subcommand, url.format(repository.program))
    assert "protocol.allow=never" in GRAMMAR.NEUTRAL
    if url.startswith("ext"):
        spelled = url.format(repository.program)
        assert repository.ran("-c", "protocol.ext.allow=always", "ls-remote", spelled)
        assert not repository.ran("-c", "protocol.allow=never", "ls-remote", spelled)


def test_cmd_10_hooks_are_off_and_what_would_start_them_is_no_subcommand(repository: Repository) -> None:
    hooks = repository.folder.parent / "hooks"
    hooks.mkdir()
    (hooks / "post-checkout").symlink_to(repository.program)
    refused("git", "-c", f"core.hooksPath={hooks}", "checkout", ".")
    for subcommand in (
        "checkout",
        "switch",
        "commit",
        "merge",
        "rebase",
        "am",
        "reset",
        "restore",
        "worktree",
        "gc",
    ):
        refused("git", subcommand)
    assert repository.ran("-c", f"core.hooksPath={hooks}", "checkout", "-q", "-b", "x")
    assert not repository.ran("-c", f"core.hooksPath={hooks}", *GRAMMAR.NEUTRAL, "checkout", "-q", "-b", "y")


@pytest.mark.parametrize("where", ["shipped", "moved by a setting"])
def test_cmd_10_what_a_look_at_a_repository_would_start_is_off(repository: Repository, where: str) -> None:
    """`git status` notes what it found, and tells a hook of that. Either of our two words keeps it from it."""
    hooks = repository.folder / ".git" / "hooks"
    if where != "shipped":
        hooks = repository.folder / ".husky"
        repository.git("config", "core.hooksPath", ".husky")
        assert GRAMMAR.foreign_settings(["core.hookspath"]) == [], "it is let through, so ours must win"
    hooks.mkdir(exist_ok=True)
    (hooks / "post-index-change").symlink_to(repository.program)

    def ran_after_a_change(*words: str) -> bool:
        (repository.folder / "file").write_text("one\n")
        os.utime(repository.folder / "file", ns=(times.pop(), times.pop()))
        return repository.ran(*words, "status")

    times = list(range(10**18, 10**18 + 8 * 10**9, 10**9))
    assert ran_after_a_change()
    assert not ran_after_a_change("-c", "core.hooksPath=/dev/null")
    assert not ran_after_a_change("--no-optional-locks")
    assert not ran_after_a_change(*GRAMMAR.NEUTRAL)


def test_cmd_11_git_looks_at_no_other_place(repository: Repository) -> None:
    secret = repository.folder.parent / "secret"
    secret.write_text("nobody's business")
    for given in (
        ["diff", "--no-index", "/dev/null", str(secret)],
        ["-C", "/", "status"],
        ["--git-dir=/x", "status"],
        ["--work-tree=/", "ls-files"],
        ["status", "--git-dir=/x"],
        ["diff", "HEAD", "--", "../secret"],
        ["diff", "HEAD", "--", str(secret)],
        ["grep", "--no-index", "x"],
        ["blame", "--contents", str(secret), "--", "file"],
        ["ls-files", "-o", f"--exclude-from={secret}"],
        ["log", "--", ":(top)x", "../x"],
    ):
        refused("git", *given)
    assert "nobody" in repository.git("diff", "--no-index", "/dev/null", str(secret)).stdout


def test_cmd_12_nothing_is_applied_and_helpers_come_from_nowhere_else(repository: Repository) -> None:
    refused("git", "apply", "--unsafe-paths", "--directory", "/", "patch")
    refused("git", "--exec-path=.", "x")
    (repository.folder / "git-x").symlink_to(repository.program)
    refused("git", "x")
    assert repository.ran("--exec-path=.", "x")


def test_cmd_13_submodules_are_not_looked_into(repository: Repository) -> None:
    refused("git", "submodule", "update")
    for given in (["status"], ["diff"], ["log", "-p"], ["show"]):
        assert "--ignore-submodules=all" in line("git", *given)
    for given in (
        ["diff", "--submodule=log"],
        ["status", "--ignore-submodules=none"],
        ["grep", "--recurse-submodules", "x"],
    ):
        refused("git", *given)
    refused("git", "log", "--", "sub\rmodule")
    refused("git", "log", "--", "sub\nmodule")
    subprocess.run(["git", "clone", "-q", str(repository.folder), str(repository.folder / "sub")], check=True)
    repository.git("add", "sub")
    (repository.folder / "sub" / "file").write_text("changed in it\n")
    assert "sub" in repository.git("diff", "--name-only").stdout
    assert "sub" not in repository.git("diff", *line("git", "diff")[1:], "--name-only").stdout


def test_cmd_14_no_setting_is_written(repository: Repository) -> None:
    for given in (
        ["config", "--global", "core.pager", "x"],
        ["config", "core.pager", str(repository.program)],
        ["config", "--list"],
        ["branch", "--edit-description"],
        ["branch", "--set-upstream-to=x"],
        ["branch", "-D", "main"],
        ["branch", "-m", "x"],
    ):
        refused("git", *given)
    made = line("git", "branch", "new")
    assert "--list" in made
    repository.git(*made)
    assert "new" not in repository.git("branch").stdout, "what is named is looked for"
    repository.git("branch", "new")
    assert "new" in repository.git("branch").stdout


@pytest.mark.parametrize(
    "name",
    ["core.fsmonitor", "core.pager", "core.worktree", "core.sshcommand", "diff.external", "alias.x", "alias.branch.x",
     "diff.x.textconv", "diff.x.command", "filter.x.clean", "filter.x.smudge", "filter.x.process", "include.path",
     "includeif.gitdir:/.path", "gpg.program", "log.showsignature", "pager.log", "credential.helper", "remote.x.vcs",
     "remote.x.uploadpack", "remote.x.promisor", "extensions.partialclone", "extensions.worktreeconfig",
     "submodule.x.update", "blame.ignorerevsfile", "pretty.x", "core.attributesfile", "core.alternaterefscommand",
     "remote.a.url.uploadpack", "remote.a.fetch.vcs", "submodule.a.url.update", "lfs.a.access.x", "core.bare.x",
     "filter.branch.clean", "lfs.customtransfer.x.path", "gpg.ssh.program", "merge.x.driver", "xcore.bare"],
)  # fmt: skip
def test_a_setting_of_a_repository_that_may_start_a_program_or_lead_elsewhere_is_told(name: str) -> None:
    usual = [
        "core.repositoryformatversion",
        "core.bare",
        "user.name",
        "remote.origin.url",
        "branch.a.b.merge",
        "branch.a.vscode-merge-base",
        "remote.a.uploadpack.url",
    ]
    assert GRAMMAR.foreign_settings(usual) == []
    assert GRAMMAR.foreign_settings([*usual, name, name]) == [name]


# --- find, grep, cat, ls, pnpm


def ran(folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv,
        cwd=folder,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        env={"PATH": os.environ["PATH"]},
    )


@pytest.mark.parametrize("action", ["-exec", "-execdir", "-ok", "-okdir"])
def test_cmd_15_find_starts_nothing(tmp_path: Path, action: str) -> None:
    refused("find", ".", action, "touch", "proof", ";")
    refused("find", ".", "-name", "x", action, "touch", "{}", "+")
    if action == "-exec":
        ran(tmp_path, "find", ".", "-maxdepth", "0", "-exec", "touch", "proof", ";")
        assert (tmp_path / "proof").exists()


def test_cmd_16_find_deletes_nothing(tmp_path: Path) -> None:
    refused("find", ".", "-delete")
    refused("find", "-name", "x", "-delete")
    (tmp_path / "x").touch()
    ran(tmp_path, "find", ".", "-name", "x", "-delete")
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("action", ["-fprintf", "-fprint", "-fprint0", "-fls"])
def test_cmd_17_find_writes_to_no_file(tmp_path: Path, action: str) -> None:
    given = [action, "proof", *(["%p"] if action == "-fprintf" else [])]
    refused("find", ".", *given)
    ran(tmp_path, "find", ".", *given)
    assert (tmp_path / "proof").exists()


def test_cmd_18_find_takes_its_start_from_no_file(tmp_path: Path) -> None:
    refused("find", "-files0-from", "secret")
    (tmp_path / "secret").write_text("nobody's business")
    assert "nobody" in ran(tmp_path, "find", "-files0-from", "secret").stderr


def test_cmd_19_find_follows_no_link_and_starts_nowhere_else(tmp_path: Path) -> None:
    for given in (
        ["-L", "."],
        ["-H", "."],
        [".", "-follow"],
        ["/"],
        ["--", "/"],
        ["../.."],
        ["-D", "exec", "."],
        ["-O3", "."],
    ):
        refused("find", *given)
    assert line("find")[0] == "-P"
    (tmp_path / "below").mkdir()
    (tmp_path / "secret").touch()
    (tmp_path / "below" / "link").symlink_to(tmp_path)
    assert "secret" in ran(tmp_path / "below", "find", "-L", ".").stdout
    assert "secret" not in ran(tmp_path / "below", "find", *line("find")).stdout


def test_cmd_20_grep_takes_patterns_from_no_file_and_follows_no_link(tmp_path: Path) -> None:
    for given in (
        ["-f", "secret", "a"],
        ["-fsecret", "a"],
        ["--file=secret", "a"],
        ["-R", "x"],
        ["--dereference-recursive", "x"],
        ["--exclude-from=secret", "x", "a"],
        ["--inc=x", "x", "a"],
        ["--include-dir=x", "x", "a"],
        ["-r", "x", "../.."],
        ["x", "/etc/passwd"],
        ["-d", "recurse", "x", "."],
        ["-D", "read", "x", "a"],
    ):
        refused("grep", *given)
    (tmp_path / "below").mkdir()
    (tmp_path / "below" / "link").symlink_to(tmp_path)
    (tmp_path / "secret").write_text("x marks it")
    assert "marks" in ran(tmp_path / "below", "grep", "-R", "x", ".").stdout
    assert "marks" not in ran(tmp_path / "below", "grep", *line("grep", "-r", "x")).stdout


def test_cmd_22_cat_reads_neither_its_input_nor_what_is_no_file_of_the_workspace(tmp_path: Path) -> None:
    for given in (
        ["-"],
        ["--", "-"],
        [],
        ["/proc/self/environ"],
        ["a", "-"],
        ["/dev/stdin"],
        ["../../secret"],
        ["-n"],
    ):
        refused("cat", *given)
    assert "PATH" in ran(tmp_path, "cat", "/proc/self/environ").stdout


def test_cmd_23_ls_looks_at_its_folders_only(tmp_path: Path) -> None:
    for given in (
        ["-R", "/"],
        ["--hyperlink"],
        ["--hyperlink=always"],
        ["-L"],
        ["--dereference"],
        ["-H"],
        ["-lL"],
        ["--color"],
    ):
        refused("ls", *given)
    assert "file://" in ran(tmp_path, "ls", "--hyperlink=always", "-d", ".").stdout


@pytest.mark.parametrize(
    "given",
    [["run", "x"], ["exec", "x"], ["dlx", "x"], ["--dir", "/x", "list"], ["-C", "/x", "list"], ["x"], ["test"], ["start"],
     ["list", "--dir=/x"], ["list", "-C", "/x"], ["-r", "exec", "x"], ["node"], ["create", "x"], []],
)  # fmt: skip
def test_cmd_24_pnpm_runs_no_script_and_goes_nowhere_else(given: list[str]) -> None:
    refused("pnpm", *given)
    assert line("pnpm", "list", "--depth=1")[0] == "list"
    assert line("pnpm", "why", "x")[-1] == "x"


@pytest.mark.parametrize(
    "given",
    ["install", "add x", "update", "import", "rebuild", "fetch", "config set x y", "setup", "env use 1"],
)
def test_cmd_25_pnpm_installs_nothing_and_reads_no_code_of_the_project(given: str) -> None:
    refused("pnpm", *given.split())
    made = line("pnpm", "list")
    assert "--config.ignore-pnpmfile=true" in made
    assert "--config.manage-package-manager-versions=false" in made
    for option in ("--config.ignore-pnpmfile=false", "--pnpmfile=x", "--global", "-g", "--config.x=y"):
        refused("pnpm", "list", option)


@pytest.mark.skipif(shutil.which("pnpm") is None, reason="pnpm is not installed here")
def test_cmd_25_the_same_words_given_to_pnpm_itself_run_code_of_the_project(tmp_path: Path) -> None:
    package = {"name": "x", "version": "1.0.0", "scripts": {"preinstall": "touch ran-a-script"}}
    (tmp_path / "package.json").write_text(json.dumps(package), encoding="utf-8")
    (tmp_path / ".pnpmfile.cjs").write_text(
        "require('fs').writeFileSync('ran-the-pnpmfile', '')", encoding="utf-8"
    )
    marks = (tmp_path / "ran-a-script", tmp_path / "ran-the-pnpmfile")

    def pnpm(*words: str) -> list[bool]:
        subprocess.run(["pnpm", *words], cwd=tmp_path, capture_output=True, check=False, timeout=50)
        return [each.exists() for each in marks]

    assert pnpm(*line("pnpm", "list")) == [False, False]
    assert pnpm("install", "--offline") == [True, True], "without the grammar it does"


# --- options in general


def test_cmd_26_the_name_of_an_option_is_written_out(tmp_path: Path) -> None:
    for command, option in (
        ("ls", "--recurs"),
        ("grep", "--ignore-cas"),
        ("cat", "--numbe"),
        ("git", "--onelin"),
    ):
        given = {"git": ["log", option], "grep": [option, "x", "a"]}.get(command, [option, "a"])
        assert "written out in full" in refused(command, *given)
    (tmp_path / "a").write_text("a")
    assert "1" in ran(tmp_path, "cat", "--number-n", "a").stdout, "the program itself takes it"


def test_cmd_27_one_letter_that_is_not_known_refuses_all_of_them(tmp_path: Path) -> None:
    for command, given in (
        ("ls", ["-lL"]),
        ("ls", ["-aZl"]),
        ("grep", ["-nf", "secret", "a"]),
        ("grep", ["-rnRl", "x"]),
        ("grep", ["-ne", "x", "a"]),
        ("cat", ["-nx", "a"]),
        ("git", ["diff", "-pO"]),
        ("git", ["grep", "-nO", "x"]),
    ):
        refused(command, *given)
    assert line("ls", "-la")[:2] == ["-l", "-a"]
    (tmp_path / "secret").write_text("x")
    (tmp_path / "a").write_text("six\n")
    assert ran(tmp_path, "grep", "-nf", "secret", "a").stdout == "1:six\n", "the program itself takes it"


def test_cmd_28_a_value_that_looks_like_an_option_is_refused_or_stands_behind_the_dashes() -> None:
    for command, given in (
        ("grep", ["-m", "--file=secret", "x", "a"]),
        ("grep", ["-e", "-f", "a"]),
        ("git", ["log", "-n", "--output=x"]),
        ("git", ["log", "--author", "--output=x"]),
        ("git", ["log", "--", "--output=x", "../y"]),
        ("git", ["diff", "-U", "--output=x"]),
        ("find", [".", "-name", "-delete"]),
        ("find", [".", "-newer", "-delete"]),
    ):
        refused(command, *given)
    assert line("git", "log", "--", "--output=x")[-2:] == ["--", "./--output=x"]
    assert line("cat", "--", "--help") == ["--", "./--help"]
    assert line("git", "log", "--author=--x")[-2:] == ["--author=--x", "--"]


@pytest.mark.parametrize(
    "program",
    [
        "env",
        "nice",
        "time",
        "timeout",
        "nohup",
        "setsid",
        "stdbuf",
        "flock",
        "watch",
        "xargs",
        "sudo",
        "doas",
    ],
)
def test_cmd_29_what_starts_other_programs_is_no_command(program: str) -> None:
    refused(program, "ls")
    refused(program, "-S", "ls")
    assert line("ls", program) == ["--", f"./{program}"]
    if program in ("env", "nice", "nohup", "setsid", "timeout") and shutil.which(program):
        before = ["5"] if program == "timeout" else []
        assert ran(Path("/"), program, *before, "echo", "started").stdout == "started\n"


@pytest.mark.parametrize(
    "program", ["sh", "bash", "zsh", "dash", "/bin/sh", "busybox", "toybox", "coreutils"]
)
def test_cmd_30_a_shell_is_no_command(program: str) -> None:
    refused(program, "-c", "id")
    refused(program, "-lc", "ls")
    if shutil.which(program) and program not in ("busybox", "toybox", "coreutils"):
        assert ran(Path("/"), program, "-c", "echo started").stdout == "started\n"


@pytest.mark.parametrize(
    ("program", "given"),
    [("python", ["-c", "1"]), ("node", ["-e", "1"]), ("perl", ["-Mx"]), ("awk", ["BEGIN{}"]), ("sed", ["e"]), ("tar", ["--to-command=x"])],
)  # fmt: skip
def test_cmd_32_what_runs_code_from_its_line_is_no_command(
    tmp_path: Path, program: str, given: list[str]
) -> None:
    refused(program, *given)
    if program == "sed":
        (tmp_path / "a").write_text("x\n")
        assert ran(tmp_path, "sed", "-n", "1e echo started", "a").stdout == "started\n"
    if program == "awk" and shutil.which("awk"):
        assert ran(tmp_path, "awk", 'BEGIN{system("echo started")}').stdout == "started\n"


SIGNS = [";", "&&", "|", "`id`", "$(id)", ">x", "<(id)", "&", "~", "{a,b}", "!", "$HOME", "*", "a;id"]


@pytest.mark.parametrize("sign", SIGNS)
def test_cmd_33_a_sign_of_the_shell_is_a_letter(tmp_path: Path, sign: str) -> None:
    assert line("grep", "-F", sign, "a")[-4:] == ["-e", sign, "--", "./a"]
    made = line("cat", "--", sign)
    assert made == ["--", f"./{sign}"]
    (tmp_path / sign).write_text("literal")
    assert ran(tmp_path, "cat", *made).stdout == "literal"


@pytest.mark.parametrize(
    "token", ["a\nb", "a\rb", "a\vb", "a\u2028b", "a\0b", "a\x1b[0m", "a\u200bb", "a\u202eb", "a\ud800"]
)
def test_cmd_34_a_line_end_or_an_unseen_sign_in_a_word_is_refused(tmp_path: Path, token: str) -> None:
    for command, given in (
        ("cat", [token]),
        ("grep", [token, "a"]),
        ("find", [".", "-name", token]),
        ("git", ["log", "--", token]),
    ):
        refused(command, *given)
    if "\0" not in token and token.isprintable() is False and "\ud800" not in token:
        (tmp_path / token).write_text("found")
        assert ran(tmp_path, "cat", token).stdout == "found", "to the system it is a name like any other"
    plain = "a b"
    assert line("cat", plain) == ["--", "./a b"], "a blank is a letter like any other"
    assert line("grep", plain, "a")[-3:] == [plain, "--", "./a"]


@pytest.mark.parametrize("command", ["ls | sh", "cat <<EOF", "ls; id", "ls\nid", "ls && id", "git status"])
def test_cmd_35_a_line_of_shell_is_no_command(tmp_path: Path, command: str) -> None:
    refused(command)
    refused(command, "a")
    if command.startswith("ls"):
        (tmp_path / "id").touch()
        assert "uid=" in ran(tmp_path, "sh", "-c", command).stdout, "a shell takes it"


def test_cmd_36_a_chain_of_commands_of_any_length_is_refused(tmp_path: Path) -> None:
    for count in (2, 51, 1000):
        chain = " && ".join(["echo x"] * count)
        refused(chain)
        assert ran(tmp_path, "sh", "-c", chain).stdout == "x\n" * count
    # As arguments they are names of files, for a chain needs a shell; and of those there are never very many.
    assert line("cat", *["ls", "&&"] * 100) == ["--", *["./ls", "./&&"] * 100]
    assert "200" in refused("cat", *["ls", "&&"] * 101)


@pytest.mark.parametrize("command", ["./ls", "/tmp/ls", "../git", "bin/git", "./git", "", "."])
def test_cmd_37_only_the_plain_name_of_a_program_is_meant(command: str) -> None:
    refused(command, "status")


@pytest.mark.parametrize("command", ["/usr/bin/../../bin/sh", "/usr/bin/*", "git/../sh", "ls/.."])
def test_cmd_39_no_path_or_pattern_stands_for_a_program(command: str) -> None:
    refused(command)
    if command.endswith("/bin/sh"):
        assert ran(Path("/"), command, "-c", "echo started").stdout == "started\n"


@pytest.mark.parametrize("command", ["git ", " git", "gіt", "g\u200bit", "ls\t", "ｌｓ", "cat\0"])
def test_cmd_40_what_only_looks_like_a_command_is_none(command: str) -> None:
    refused(command, "status")


@pytest.mark.parametrize("cwd", ["/", "/w-evil", "/w/brain", "/w/packages/x", "/w/..", "/etc", "/w/Docs"])
def test_cmd_42_a_folder_outside_is_no_place_to_start(cwd: str) -> None:
    refused("ls", cwd=cwd)
    assert line("ls", cwd="/w/docs") == ["--", "."]


def test_cmd_43_too_much_is_an_answer(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="too long"):
        ran(tmp_path, "cat", "a" * 2_000_000)
    assert "200" in refused("cat", *["a"] * 100_000)
    assert "bytes" in refused("cat", "a" * 2_000_000)
    assert "bytes" in refused("grep", "x" * 33_000, "a")
    assert "too long" in refused("cat", "a/" * 5_000)
    assert "too long" in refused("cat", "x" * 256)
    assert len(line("cat", *["a"] * 200)) == 201
    assert line("grep", "x" * 32_000, "a")[2] == "x" * 32_000
    assert line("cat", "x" * 255)[-1] == "./" + "x" * 255


@pytest.mark.parametrize("command", ["LS", "Cat", "ls.exe", "git.exe", "GIT.BAT", "cat.cmd", "git.com"])
def test_cmd_45_letter_case_and_foreign_endings_mean_nothing(command: str, tmp_path: Path) -> None:
    refused(command)
    assert line("ls")
    program = tmp_path / command
    program.write_text("#!/bin/sh\necho ran\n", encoding="utf-8")
    program.chmod(0o755)
    path = {"PATH": f"{tmp_path}:/usr/bin:/bin"}
    ran = subprocess.run([command], env=path, capture_output=True, text=True, check=False)
    assert ran.stdout == "ran\n", "without the grammar a program of that name would be run"


# --- in general


@pytest.mark.parametrize("given", [[1], [None], [["a"]], [{"a": 1}], [True], ["a", 1.5]])
def test_an_argument_is_a_text(given: list[Any]) -> None:
    assert "text of its own" in refused("cat", *given)


@pytest.mark.parametrize(
    "option", ["--format=%G?", "--pretty=format:%h %GG", "--format=%+GS", "--show-signature", "--format=% G?"]
)
def test_no_signature_is_checked_by_a_program(option: str) -> None:
    refused("git", "log", option)
    assert line("git", "log", "--format=%h %s")


def test_git_and_pnpm_start_in_a_folder_and_not_in_the_workspace_itself() -> None:
    assert "cwd" in refused("git", "status", cwd=TOP)
    assert "cwd" in refused("pnpm", "list", cwd=TOP)


def test_there_is_something_to_look_for_and_somewhere_to_look() -> None:
    assert "pattern" in refused("grep")
    assert "-r" in refused("grep", "tea")
    assert "name what" in refused("cat")
    assert "name what" in refused("git", "blame")


def test_no_table_knows_an_option_that_writes_or_starts_something() -> None:
    dangerous = "output exec upload-pack ext-diff textconv open-files-in-pager file no-index hyperlink dereference config git-dir"
    for table in (GRAMMAR.LS, GRAMMAR.CAT, GRAMMAR.GREP, *GRAMMAR.GIT.values(), *GRAMMAR.PNPM.values()):
        known = {*table.long, *table.long_values}
        assert not known & {f"--{name}" for name in dangerous.split()}
    assert not {"-exec", "-delete", "-fprintf", "-printf", "-ok"} & set(GRAMMAR.FIND_WORDS)
