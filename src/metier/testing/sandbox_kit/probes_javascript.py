"""The acts in JavaScript, for a sandbox that runs Deno."""

# ruff: noqa: ASYNC230
# A file of a few lines.

import os
import tempfile
from collections.abc import Mapping
from functools import cache
from typing import Any, Final, final

import msgspec

from metier.model.entry import InlineCode, ScriptHandler
from metier.model.job import Report
from metier.sandbox.deno_where import find_engine
from metier.sandbox.protocol import Missing
from metier.testing.sandbox_kit import leftovers
from metier.testing.sandbox_kit.bench import KitFailure
from metier.testing.sandbox_kit.guest import Bare, Prepared
from metier.testing.sandbox_kit.outside import outside

_BEYOND: Final = (
    "JavaScript has no such thing; a program or native code would be needed, and both are refused"
)
_FLAGS: Final = ("run", "--allow-all", "--quiet", "--no-config", "--no-lock", "--no-prompt", "--no-npm")


@cache
def _text() -> str:
    with open(os.path.join(os.path.dirname(__file__), "acts.js"), encoding="utf-8") as file:
        return file.read()


@final
class JavaScriptGuest:
    """Code for a sandbox that runs JavaScript."""

    name: Final = "javascript"
    bridged: Final = True
    leaves_uncaught: Final = frozenset({"out_of_memory", "raised"})
    leaves_silent: Final = frozenset({"no_result"})
    odd_as: Final[tuple[type, ...]] = ()
    has_processes: Final = True
    burns_fuel: Final = False
    absent: Final[Mapping[str, str]] = dict.fromkeys(
        (
            *("daemons", "deaf", "forks", "children_memory", "system_calls", "privilege", "others", "trace"),
            *("descriptors", "ask_through_others", "keep_words", "other_word", "core_limit"),
        ),
        _BEYOND,
    )

    ways: Final[Mapping[str, tuple[Mapping[str, Any], ...]]] = {}
    certain: Final[Mapping[str, tuple[str, ...]]] = {
        "huge": ("two_gigabytes",),
        "read_outside": ("open", "list", "fetch", "node", "require", "passwords", "home", "write", "create"),
        "links": ("shipped_to_file", "shipped_to_folder", "made_to_file", "made_to_folder"),
        "change": ("write", "mode", "times", "rename"),
        "devices": ("other_processes", "/sys"),
        "network": ("tcp", "listen", "node", "sees_tcp"),
        "by_grant": ("plain", "other", "other_port", "redirected"),
        "unix_sockets": ("path_stream", "node"),
        "set_id": ("chmod", "node"),
        "files_of_others": ("read", "write", "granted"),
        "made_code": (
            "evaluated",
            "by_new_function",
            "by_a_data_import",
            "by_a_worker",
            "by_a_shell",
            "by_node",
        ),
    }

    def prepare(self, act: str, params: Mapping[str, Any], folder: str, *, at_load: bool = False) -> Prepared:
        if not at_load:
            source = f"{_text()}\nresult = await acts.{act}(params, context);"
            return Prepared(entry=InlineCode(language="javascript", source=source), arguments=dict(params))
        given = msgspec.json.encode(params).decode()
        with open(f"{folder}/handler.mjs", "w", encoding="utf-8") as file:
            file.write(f"{_text()}\nconst says = await acts.{act}({given});\nexport default () => says;\n")
        entry = ScriptHandler(path="handler.mjs", language="javascript")
        return Prepared(entry=entry, arguments=dict(params), bundle=folder)

    def said(self, report: Report) -> Any:
        return report.value

    def shown(self, report: Report) -> str:
        return report.stdout + report.stderr

    async def bare(
        self,
        act: str,
        params: Mapping[str, Any],
        *,
        cwd: str,
        seconds: float,
        environment: Mapping[str, str],
        stdin: bytes = b"",
    ) -> Bare:
        engine = find_engine()
        if isinstance(engine, Missing):
            raise KitFailure(engine.why)
        given = msgspec.json.encode(params).decode()
        ending = f"const says = await acts.{act}({given}, {{}});\nconsole.log();\nconsole.log(JSON.stringify(says));"
        with tempfile.TemporaryDirectory(prefix="metier-kit-bare-") as folder:
            path = os.path.join(folder, "bare.mjs")
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"// {leftovers.mark()}\n{_text()}\n{ending}\n")
            around = {**environment, "DENO_DIR": folder, "DENO_NO_UPDATE_CHECK": "1"}
            argv = [engine.path, *_FLAGS, path]
            return await outside(argv, cwd=cwd, seconds=seconds, environment=around, stdin=stdin)
