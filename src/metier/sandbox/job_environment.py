"""The variables of a run: those that were granted by name, with the values they have for the operator.

A granted variable is visible to the code that runs, also when its value is a secret. Who wants to keep a secret from
the code grants it as a secret instead: then it is put into requests on their way out.

Variables known to tell programs what else to load, start or trust are never handed on, whoever asks for them. Nobody
knows them all; what a granted one does is the operator's word, and the program that reads it is in the sandbox too.
"""

import os
import re
from collections.abc import Iterable, Mapping
from typing import Final

_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_OURS: Final = frozenset({"HOME", "PATH", "TMPDIR", "LANG"})
"""Set by the sandbox itself."""
_NO_SETTINGS: Final = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_ATTR_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null"}
_STEERING: Final = re.compile(
    r"LD_.*|GLIBC_.*|GCONV_PATH|LOCPATH|NLSPATH|MALLOC_.*|BASH_.*|BASHOPTS|ENV|SHELLOPTS|SHELL|PS4|IFS|CDPATH|PROMPT_COMMAND"
    r"|GIT_.*|SSH_.*|PAGER|MANPAGER|LESS.*|EDITOR|VISUAL|BROWSER|NODE_.*|DENO_.*|BUN_.*|NPM_.*|PYTHON.*|PERL.*|RUBY.*|GEM_.*"
    r"|JAVA_.*|_JAVA_.*|JDK_.*|RUST.*|CARGO_.*|LUA_.*|PHP.*|HTTPS?_PROXY|ALL_PROXY|NO_PROXY|FTP_PROXY|SSL_.*|SSLKEYLOGFILE"
    r"|REQUESTS_CA_BUNDLE|CURL_.*|OPENSSL_.*|DBUS_.*|XDG_.*|METIER_.*|TAR_OPTIONS|RIPGREP_CONFIG_PATH|MAKE.*|AWK.*|GAWK_.*"
    r"|VIM.*|EXINIT|RSYNC_.*|SVN_.*|HG.*|DOTNET_.*|COR(?:ECLR)?_.*|AWS_CONFIG_FILE|KUBECONFIG|HOSTALIASES|RES_OPTIONS|LOCALDOMAIN"
    r"|CLASSPATH|FZF_.*|.*_?PAGER|ZDOTDIR|.*_CONFIG_(?:FILE|PATH|HOME|DIR)|GCC_.*|COMPILER_PATH|DOCKER_.*|CONTAINER_.*|TERMINFO.*",
    re.IGNORECASE,
)


def no_variable(name: str) -> str:
    """Why there can be no variable of that name. What stands behind a `=` is a value, and no reason repeats one."""
    before, sign, _ = name.partition("=")
    return f"{before[:60] + ('=…' if sign else '')!r} is not the name of a variable"


def granted_variables(names: Iterable[str], operators: Mapping[str, str]) -> dict[str, str] | str:
    """The values of the named variables, or why they cannot be given. One the operator does not have is left out."""
    given: dict[str, str] = {}
    for name in sorted(names):
        if not _NAME.fullmatch(name):
            return no_variable(name)
        if name in _OURS:
            continue
        if _STEERING.fullmatch(name):
            return f"the variable {name} steers what programs load, start or trust, so no run gets it"
        value = operators.get(name)
        if value is not None:
            given[name] = value
    return given


def without_settings(file: str) -> dict[str, str]:
    """What a program is told besides, so that it does not look for settings outside of its run. There it would find none, or
    none that it may read, and git does not go on then."""
    return dict(_NO_SETTINGS) if os.path.basename(file) == "git" else {}
