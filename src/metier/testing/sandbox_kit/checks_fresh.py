"""Behaviours 45 and 46: what a skill ships for an interpreter, and what a run leaves for the next, is not taken."""

import os
import secrets
from typing import Any

from metier.sandbox.deno_where import find_engine
from metier.sandbox.protocol import Missing
from metier.testing.sandbox_kit import outside as without_walls
from metier.testing.sandbox_kit.behaviour import behaviour
from metier.testing.sandbox_kit.bench import Bench
from metier.testing.sandbox_kit.checks_files import SECRET, place
from metier.testing.sandbox_kit.probes_python import PYTHON


async def runtime_files_shipped_by_a_skill_are_ignored(bench: Bench) -> None:
    bundle = bench.folder("shipped")
    # No runner has any use for the last one, so it is not loaded already.
    for name in (
        *("sitecustomize.py", "usercustomize.py", "planted.py", "json.py", "textwrap.py"),
        "colorsys.py",
    ):
        bench.file(bundle, name, f"PLANTED = True\nraise SystemError({SECRET!r})\n")
    bench.file(bundle, "planted.pth", "import planted\n")
    for name in ("deno.json", ".npmrc", "import_map.json", "deno.lock", "package.json", "pyvenv.cfg"):
        bench.file(bundle, name, '{"imports": {"planted": "./planted.mjs"}, "home": "/nowhere"}')
    bench.file(bundle, "planted.mjs", f"console.error({SECRET!r});\n")
    os.mkdir(os.path.join(bundle, "bin"))
    await _taken(bench, bundle)
    if await bench.absent("shipped"):
        return
    prepared = bench.guest.prepare("shipped", {}, bundle, at_load=True)
    report = await bench.sandbox.run(bench.job(prepared, places=(place(bundle),), cwd=bundle))
    said = bench.guest.said(report)
    bench.expect("ran", report.ending == "returned", report)
    bench.expect("ignored", said == {"json": False, "customized": [], "path": []}, said)


async def _taken(bench: Bench, bundle: str) -> None:
    """Started as anybody would start it, an interpreter or an engine does take what lies there."""
    line, own = [PYTHON, "-B", "-c", "import colorsys"], dict[str, str]()
    if bench.guest.name == "javascript":
        engine = find_engine()
        path = "" if isinstance(engine, Missing) else engine.path
        bench.need("engine", bool(path), engine)
        bench.file(bundle, "taken.mjs", "await import('planted');\n")
        # The lock file that is shipped is none, and an engine that looks at it goes no further.
        line = [path, "run", "--allow-all", "--quiet", "--no-lock", "taken.mjs"]
        own = {"DENO_DIR": bench.folder("engine"), "DENO_NO_UPDATE_CHECK": "1"}
    control = await without_walls.outside(line, cwd=bundle, seconds=10, environment=own)
    bench.prove(SECRET.encode() in control.stderr, control)


async def nothing_is_kept_between_two_calls(bench: Bench) -> None:
    shared = bench.folder("shared")
    leave: dict[str, Any] = {"leave": True, "work": False, "own": True}
    control = [await bench.control("look_for_mark", leave, cwd=shared) for _ in range(2)]
    bench.prove(control[0]["files"] == [] and bool(control[1]["files"]), control)
    work = bench.folder("work")
    places = (place(work, writable=True),)
    first = await bench.value("look_for_mark", {"leave": True, "work": True}, places=places, cwd=work)
    files = "here" not in bench.guest.absent
    if files:
        await bench.value("here", {"name": "granted"}, places=places, cwd=work)
    second = await bench.value("look_for_mark", {"leave": True, "work": True}, places=places, cwd=work)
    clean: dict[str, Any] = {"files": [], "module": False, "name": False, "variable": False}
    for said in (first, second):
        bench.expect("clean", {name: said[name] for name in clean} == clean, said)
    bench.expect("random", not set(first["random"]) & set(second["random"]), [first, second])
    bench.expect("granted", os.listdir(work) == (["granted"] if files else []), os.listdir(work))
    await _no_words(bench)


async def _no_words(bench: Bench) -> None:
    """Nor where no file lies. What is left outside is taken away again, and so is what would be found inside."""
    shared = bench.folder("shared")
    leave = {"key": secrets.randbelow(1 << 30) + 1, "leave": True, "take": False}
    find = {**leave, "leave": False, "take": True}
    # Looked for first as well: a program that is put beside the folder's other files for the first time would change its
    # times, and they are one of the words.
    tried = (find, leave, find)
    control = [await bench.control("keep_words", {**asked, "own": True}, cwd=shared) for asked in tried]
    before, certain = [each["did"] for each in control[:2]], bench.certain("keep_words")
    bench.prove(before == [[], []] and certain <= set(control[2]["did"]), control)
    if await bench.absent("keep_words", leave):
        return
    said = [await bench.value("keep_words", asked) for asked in (leave, find)]
    bench.expect("words", [each["did"] for each in said] == [[], []], said)


BEHAVIOURS = (
    behaviour(45, runtime_files_shipped_by_a_skill_are_ignored, "JS-17 PY-03 PY-04", "fresh_state"),
    behaviour(46, nothing_is_kept_between_two_calls, "JS-03 WASM-15", "fresh_state"),
)
