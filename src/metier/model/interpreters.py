"""Programs that are whatever one tells them to be: shells, interpreters, and those made to start another program.

To grant one of these is to grant code that nobody has read, so the operator must have named it as such. It is a first
word only: the walls of the sandbox are what holds. Of the many other programs that can be brought to start another one
(`git`, `find`, `tar`, `make`, editors, package managers) none is here, for that is not what they are granted for; what a
caller may tell them is looked at where their line is written (`dialects/command_places.py`).
"""

import re
from typing import Final

_SHELLS: Final = """
    sh bash rbash dash ash zsh rzsh fish ksh rksh mksh lksh pdksh oksh loksh yash posh csh tcsh bsh
    elvish nu xonsh oil osh ysh pwsh powershell cmd busybox toybox sash
"""
_INTERPRETERS: Final = """
    python pythonw pypy ipython bpython jython micropython graalpy perl ruby irb jruby truffleruby mruby
    node nodejs deno bun qjs quickjs d8 jsc mujs tsx ts-node php php-cgi phpdbg hhvm lua luajit luau texlua
    awk gawk mawk nawk original-awk igawk tclsh jimsh wish expect guile racket scheme chez gosh csi sbcl clisp ecl
    clojure clj bb janet ghci runghc runhaskell ocaml r rscript julia octave octave-cli erl escript elixir iex
    java jshell groovy scala kotlin dotnet csharp fsi osascript gdb lldb m4 swipl gforth tcc coffee mono wine
    cscript wscript mshta
"""
_LAUNCHERS: Final = """
    env xargs parallel rush nohup setsid timeout nice ionice chrt taskset stdbuf unbuffer time watch entr strace ltrace
    perf flock chroot unshare nsenter bwrap firejail systemd-run systemd-nspawn start-stop-daemon run-parts at batch
    crontab script screen tmux dtach ssh slogin rsh mosh sshpass sudo sudoedit su doas pkexec runuser setpriv capsh gosu
    su-exec docker podman nerdctl kubectl lxc-attach npx bunx uvx pipx setarch linux32 linux64 proot fakeroot
    fakechroot dbus-run-session xvfb-run socat ld.so ld-linux.so ld-linux-x86-64.so ld-linux-aarch64.so ld-musl
    prlimit choom uclampset coresched ssh-agent dbus-launch sg newgrp runcon numactl cgexec cpulimit softlimit valgrind
    catchsegv rr tini dumb-init catatonit chpst setuidgid s6-setuidgid envdir with-contenv pidproxy daemonize eatmydata
    faketime torsocks proxychains proxychains4 nsjail sem chronic ifne rlwrap run-one hyperfine watchexec nix-shell
"""
_MACHINES: Final = """
    uname26 i386 i486 i586 i686 x86_64 ia64 ppc ppc32 ppc64 s390 s390x sparc sparc32 sparc64 mips mips32 mips64 parisc
"""
"""Other names of `setarch`."""
_STARTERS: Final = frozenset(f"{_LAUNCHERS} {_MACHINES}".split())
NAMES: Final = _STARTERS | frozenset(f"{_SHELLS} {_INTERPRETERS}".split())
_EMULATOR: Final = re.compile(r"qemu-(?!(?:img|io|nbd|ga|edid)\Z).+")
_ASIDE: Final = re.compile(r"(?:[.-](?:distrib|diverted|real|orig|bin|wrapped|preview)|\.exe)+\Z")
"""How the name ends of a program that was moved aside, or of one edition of it."""
_VERSION: Final = re.compile(
    r"(?:[-_.]?\d[\w.+-]*)?(?:[-_.](?:static|dbg|debug|minimal|tiny|full|basic|nox|gtk\d?|athena|motif|huge|appimage|x86_64[\w.-]*))?(?:\.exe)?"
)


_MANY_IN_ONE: Final = ("busybox", "toybox")
"""Files that are many programs, each started by the name it is granted under."""


def is_interpreter(program: str) -> bool:
    """Whether a program of this name is one of them, whatever its folder, version or letter case."""
    return is_among(program, NAMES)


def is_starter(program: str) -> bool:
    """Whether it is one of those made to start another program."""
    return is_among(program, _STARTERS)


def is_among(program: str, names: frozenset[str]) -> bool:
    """Whether a program of this name is one of `names`, or of the emulators, whatever its folder, version or letter case."""
    name = program.replace("\\", "/").rstrip("/").rpartition("/")[2].strip().casefold()
    name = _ASIDE.sub("", name.lstrip("."))
    if name in names or _EMULATOR.match(name):
        return True
    # Any of them may be followed by a version, but for those so short that another program is meant.
    return any(name[:end] in names and _VERSION.fullmatch(name, end) for end in range(3, len(name)))


def hides_interpreter(name: str, file: str) -> bool:
    """Whether `name`, which is none of them, is a link to one of them, `file`."""
    really = file.rpartition("/")[2]
    return not is_interpreter(name) and is_interpreter(really) and not really.startswith(_MANY_IN_ONE)
