"""The dialect of MetaHuman OS: `<id>.json`, or `export const manifest` in the code, and a function `execute(inputs)`.

One skill is one tool. What the manifest leaves out is never read as a permission: without `requiresApproval` it is always
asked, without `risk` it counts as an act, and a `validation` that cannot be applied refuses the skill.
"""

import re
from collections.abc import Collection
from typing import Final, Literal, TypeAlias, TypeVar, get_args

from metier.dialects import manifest_file, risk
from metier.dialects.about import check_description, check_hidden
from metier.dialects.code_exports import exported
from metier.dialects.compiled import Compiled, finished, refused
from metier.dialects.draft import Draft
from metier.dialects.frontmatter import Document
from metier.dialects.metahuman_inputs import Inputs, inputs, outputs
from metier.dialects.metahuman_reach import reach
from metier.dialects.names import name_problem
from metier.model import strictjson
from metier.model.diagnostic import Diagnostic
from metier.model.digest import Json
from metier.model.entry import Entry, PythonHandler, ScriptHandler
from metier.model.permission import OWN_FOLDER, PermissionSet
from metier.model.skill import Check, Limits, Source, Tool
from metier.model.text import one_line
from metier.model.trust_level import LEVELS

Language: TypeAlias = Literal["python", "typescript", "javascript"]
Category: TypeAlias = Literal["fs", "memory", "agent", "shell", "network"]
Cost: TypeAlias = Literal["free", "cheap", "expensive"]
_Word = TypeVar("_Word", bound=str)

FUNCTION: Final = "execute"
FIELDS: Final = frozenset(
    {"id", "name", "description", "category", "inputs", "outputs", "risk", "cost", "minTrustLevel", "requiresApproval"}
    | {"allowedDirectories", "commandWhitelist", "version", "implementation"}
)  # fmt: skip
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)
_FILE: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,120}\.(?:py|ts|js)", re.ASCII)
_LANGUAGES: Final[dict[str, Language]] = {"py": "python", "ts": "typescript", "js": "javascript"}
_NEEDED: Final[dict[Check, tuple[str, str]]] = {
    "isWithinAllowedDirectory": ("reads", "no folder may be read"),
    "isWriteAllowed": ("writes", "no folder may be written to"),
    "isWhitelisted": ("binaries", "no program may be started"),
}


def compile_skill(data: bytes, *, manifest: str, location: str = "", source: Source = "user") -> Compiled:
    """The skill that the file `<id>.json` describes. Its code is `<id>.py`, unless `implementation` names another file."""
    stem = manifest[: -len(".json")] if manifest.lower().endswith(".json") else manifest
    document = manifest_file.read(data, manifest)
    if document.fields is None:
        return refused(document.diagnostics, stem, "", dialect="metahuman")
    named = document.fields.get("implementation")
    path = named if isinstance(named, str) and _FILE.fullmatch(named) else f"{stem}.py"
    language = _LANGUAGES[path.rpartition(".")[2]]
    return _compiled(document, document.fields, stem, manifest, location, source, _entry(language, path))


def of_manifest(
    fields: dict[str, Json],
    *,
    stem: str,
    manifest: str,
    location: str,
    source: Source,
    language: Language,
    path: str,
    exports: Collection[str] = (),
) -> Compiled:
    """The skill of a manifest that was read already, for example by running the code that exports it.

    Args:
        stem: the name of the file without its ending, which the `id` has to be.
        path: the file that holds `execute`.
        exports: what else that file is known to export; a `validation` may name one of these.
    """
    try:
        strictjson.check(fields)
    except ValueError as error:
        message = f"the manifest holds what no JSON could: {one_line(str(error), 200)}"
        return refused(
            (Diagnostic(code="not_metahuman", severity="error", message=message),),
            stem,
            "",
            dialect="metahuman",
        )
    document = Document(fields=fields)
    return _compiled(document, fields, stem, manifest, location, source, _entry(language, path), exports)


def is_code_manifest(data: bytes) -> bool:
    """Whether a `.ts` or `.js` text looks as if it exported `manifest` and `execute`."""
    return b"manifest" in data and b"execute" in data and {"manifest", FUNCTION} <= exported(data)


def _entry(language: Language, path: str, function: str = FUNCTION) -> PythonHandler | ScriptHandler:
    if language == "python":
        return PythonHandler(path=path, function=function)
    return ScriptHandler(path=path, language=language, export=function)


def _compiled(
    document: Document,
    fields: dict[str, Json],
    stem: str,
    manifest: str,
    location: str,
    source: Source,
    entry: PythonHandler | ScriptHandler,
    exports: Collection[str] = (),
) -> Compiled:
    draft = Draft(document)
    if problem := _foreign(fields, stem):
        draft.note("not_metahuman", "error", f"it is no skill of MetaHuman: {problem}", '"id"')
        return finished(draft, stem, "", "metahuman", manifest)
    given = fields.get("description")
    description = given.strip() if isinstance(given, str) else ""
    draft.words["location"] = location
    draft.words["source"] = source
    _about(draft, fields, stem, description)
    _implementation(draft, fields, entry)
    category = _one_of(draft, fields, "category", get_args(Category))
    if category == "network":
        draft.words["asks_network"] = True  # the manifest has no word for which hosts
    tool = _tool(draft, fields, stem, description, entry, exports)
    draft.words["tools"] = (tool,)
    draft.words["permissions"] = OWN_FOLDER | tool.permissions
    return finished(draft, stem, description, "metahuman", manifest)


def _foreign(fields: dict[str, Json], stem: str) -> str:
    """Why this is a manifest of something else; empty when it is one of ours."""
    given = fields.get("id")
    if not isinstance(given, str):
        return f"it has no `id`; write `id` with the name of the file, {one_line(stem, 60)!r}"
    if given != stem:
        return f"its id is {one_line(given, 60)!r} and its file {one_line(stem, 60)!r}; both must be the same"
    missing = [f"`{key}`" for key in ("category", "inputs") if key not in fields]
    return f"it has no {' and no '.join(missing)}; write what it is and what it takes" if missing else ""


def _about(draft: Draft, fields: dict[str, Json], stem: str, description: str) -> None:
    """Name, description and version, and every field that is nobody's."""
    problem = name_problem(stem)
    if not problem and not _ID.fullmatch(stem):
        problem = "it is not made of at most 64 letters, digits, `_`, `-` and `.`"
    if problem:
        draft.note("bad_name", "error", f'the id "{one_line(stem, 60)}" is refused: {problem}', '"id"')
    check_description(draft, description)
    for key in ("category", "name"):
        if isinstance(said := fields.get(key), str):
            draft.extra[key] = said
            check_hidden(draft, key, said)
    if not isinstance(fields.get("name"), str):
        draft.note("missing_field", "warning", "there is no name for people to read; write `name`", '"name"')
    match fields.get("version"):
        case str() as version:
            draft.words["version"] = version.strip()
        case None:
            pass
        case other:
            draft.extra["version"] = other
            draft.note(
                "unknown_field", "info", "version is no text; it is kept and shown, nothing more", '"version"'
            )
    for key, value in fields.items():
        if key not in FIELDS and value is not None:
            draft.extra[key] = value
            message = (
                f'"{one_line(key, 60)}" is no field that Metier knows; it is kept and shown, nothing more'
            )
            draft.note("unknown_field", "info", message, f'"{key}"')


def _implementation(draft: Draft, fields: dict[str, Json], entry: PythonHandler | ScriptHandler) -> None:
    named = fields.get("implementation")
    if named is None or named == entry.path:
        return
    if isinstance(named, str) and _FILE.fullmatch(named):
        message = (
            f'implementation names "{one_line(named, 60)}", but what is run is "{one_line(entry.path, 60)}"'
        )
    else:
        message = "implementation is not the name of a .py, .ts or .js file beside the manifest; name one, or leave it out"
    draft.note("bad_implementation", "error", message, '"implementation"')


def _tool(
    draft: Draft,
    fields: dict[str, Json],
    name: str,
    description: str,
    entry: PythonHandler | ScriptHandler,
    exports: Collection[str],
) -> Tool:
    approval = _approval(draft, fields)
    declared: risk.Risk | None = _one_of(draft, fields, "risk", risk.RISKS)
    effect: risk.Effect = "read" if declared == "low" and approval == "policy" else "act"
    # The folders of a shell skill are where its programs look; what one of them could write nobody foresees.
    permissions = reach(draft, fields, writes=effect == "act" and fields.get("category") != "shell")
    taken = inputs(draft, fields.get("inputs"), exports)
    _say_what_cannot_pass(draft, taken, permissions)
    cost = _one_of(draft, fields, "cost", get_args(Cost))
    if cost is None and "cost" not in fields:
        _missing(draft, "cost", "it counts as expensive")
    trust = _one_of(draft, fields, "minTrustLevel", LEVELS)
    if trust is None and "minTrustLevel" not in fields:
        _missing(draft, "minTrustLevel", "it needs observe to read and supervised_auto to act")
    language: Language = "python" if isinstance(entry, PythonHandler) else entry.language
    return Tool(
        name=f"{name}/{FUNCTION}",
        outward="" if "." in name else name,
        skill=name,
        description=description,
        answer="metahuman",
        parameters=taken.parameters,
        returns=outputs(draft, fields.get("outputs")),
        checks=taken.checks,
        validator=_entry(language, entry.path, taken.validator) if taken.validator else None,
        effect=effect,
        risk=_risk(draft, fields, declared, effect, entry, permissions),
        cost=cost or "expensive",
        minimum_trust=trust or ("observe" if effect == "read" else "supervised_auto"),
        approval=approval,
        permissions=permissions,
        # Whoever starts an agent and waits for it waits as long as there is time at all.
        limits=Limits(timeout=300.0) if fields.get("category") == "agent" else Limits(),
        entry=entry,
    )


def _approval(draft: Draft, fields: dict[str, Json]) -> Literal["policy", "always"]:
    match fields.get("requiresApproval"):
        case False:
            return "policy"
        case True:
            pass
        case None:
            _missing(draft, "requiresApproval", "it is asked every time")
        case _:
            message = "requiresApproval is neither true nor false; write one of them without quotation marks"
            draft.note("bad_field", "error", message, '"requiresApproval"')
    return "always"


def _risk(
    draft: Draft,
    fields: dict[str, Json],
    declared: risk.Risk | None,
    effect: risk.Effect,
    entry: Entry,
    permissions: PermissionSet,
) -> risk.Risk:
    """What is declared, or more where the tool can do more; the category says what its permissions cannot."""
    category = fields.get("category")
    least = risk.default_risk(
        effect=effect, entry=entry, permissions=permissions, network=category == "network"
    )
    if effect == "act" and category == "shell":
        least = "high"
    if declared is None:
        if "risk" not in fields:
            _missing(draft, "risk", f"it counts as {least}")
        return least
    found = risk.raised(declared, least)
    if found != declared:
        message = f"risk says {declared}, but a tool that can do this has {found} risk; write {found}"
        draft.note("risk_raised", "warning", message, '"risk"')
    return found


def _say_what_cannot_pass(draft: Draft, taken: Inputs, permissions: PermissionSet) -> None:
    for name, check in taken.checks.items():
        kind, what = _NEEDED.get(check, ("", ""))
        if kind and not getattr(permissions, kind):
            message = f"inputs.{name} has to pass {check}, but {what}, so every call with it is refused"
            draft.note("nothing_passes", "warning", message, f'"{name}"')


def _one_of(draft: Draft, fields: dict[str, Json], key: str, words: tuple[_Word, ...]) -> _Word | None:
    """The word that is given; None when there is none, or another one, which is an error."""
    if key not in fields:
        return None
    for word in words:
        if fields[key] == word:
            return word
    draft.note("bad_field", "error", f"{key} is none of {', '.join(words)}; write one of them", f'"{key}"')
    return None


def _missing(draft: Draft, key: str, so: str) -> None:
    draft.note("missing_field", "warning", f"{key} is missing, so {so}; write it")
