"""Ways to install what a skill needs. They are shown to people; nothing here or anywhere else runs them.

`normal_spec` gives what OpenClaw would keep of one entry, `installers` gives every entry as a person needs it.
"""

import re
from typing import Final

from metier.dialects.scalars import SPACE, strings, text
from metier.dialects.web_address import web_address
from metier.model.digest import Json
from metier.model.requirement import Installer

_NEEDS: Final = {"brew": "formula", "node": "package", "go": "module", "uv": "package", "download": "url"}
_BREW: Final = r"[A-Za-z0-9][A-Za-z0-9@+._/-]*"
_GO: Final = r"[A-Za-z0-9][A-Za-z0-9._~+\-/]*(?:@[A-Za-z0-9][A-Za-z0-9._~+\-/]*)?"
_UV: Final = r"[A-Za-z0-9][A-Za-z0-9._\-\[\]=<>!~+,]*"
_NPM: Final = r"(?:@[a-z0-9][a-z0-9-._~]*/)?[a-z0-9][a-z0-9-._~]*"
_NPM_TAG: Final = r"[A-Za-z0-9][A-Za-z0-9._-]*"
_PART: Final = r"(?:0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)"
_NUMBER: Final = r"(?:0|[1-9]\d{0,15})"
_BUILD: Final = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_SEMVER: Final = rf"[v=]*{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-{_PART}(?:\.{_PART})*)?(?:\+{_BUILD})?"
# fmt: off
_TARGETS: Final = (
    "formula", "cask", "package", "packages", "module", "url", "command", "cmd", "run", "script", "shell", "exec",
    "name", "target", "value", "crate", "gem", "repo", "path",
)
# fmt: on
_COMMON: Final = frozenset({"kind", "type", "label", "bins", "os"})


def _trimmed(value: Json) -> str:
    return value.strip(SPACE) if isinstance(value, str) else ""


def _matching(value: Json, pattern: str, *never: str) -> str:
    """The trimmed text if it is nothing but what `pattern` allows."""
    found = _trimmed(value)
    if not re.fullmatch(pattern, found, re.ASCII) or any(part in found for part in never):
        return ""
    return found


def _npm(value: Json) -> str:
    """A package of the npm registry, with a version or a tag at most; no address, range or path."""
    spec = _trimmed(value)
    at = spec.rfind("@")
    name, version = (spec[:at], spec[at + 1 :]) if at > 0 else (spec, None)
    if not re.fullmatch(_NPM, name, re.ASCII):
        return ""
    if version is None or re.fullmatch(_NPM_TAG, version, re.ASCII):
        return spec
    return spec if len(version) <= 256 and re.fullmatch(_SEMVER, version, re.ASCII) else ""


def kind_of(spec: dict[str, Json]) -> str:
    """How the author means it to be installed, in lower case."""
    kind = spec.get("kind")
    return _trimmed(kind if isinstance(kind, str) else spec.get("type")).lower()


def normal_spec(spec: Json) -> dict[str, Json] | None:
    """One entry in OpenClaw's normal form; None when OpenClaw would drop it."""
    if not isinstance(spec, dict) or (kind := kind_of(spec)) not in _NEEDS:
        return None
    normal: dict[str, Json] = {"kind": kind}
    for key in ("id", "label"):
        if isinstance(value := spec.get(key), str) and value:
            normal[key] = value
    for key in ("bins", "os"):
        if listed := strings(spec.get(key)):
            normal[key] = [*listed]
    formula = _matching(spec.get("formula"), _BREW, "..") or _matching(spec.get("cask"), _BREW, "..")
    package = _npm(spec.get("package")) if kind == "node" else ""
    if kind == "uv":
        package = _matching(spec.get("package"), _UV, "://")
    module = _matching(spec.get("module"), _GO, "://")
    url = web_address(_trimmed(spec.get("url"))) or ""
    found = {"formula": formula, "package": package, "module": module, "url": url}
    normal.update((key, value) for key, value in found.items() if value)
    if kind == "download" and "sha256" in spec:
        digest = _trimmed(spec["sha256"]).lower()
        if not re.fullmatch("[a-f0-9]{64}", digest):
            return None
        normal["sha256"] = digest
    for key, wanted in (("archive", str), ("extract", bool), ("targetDir", str)):
        if isinstance(value := spec.get(key), wanted):
            normal[key] = value
    strip = spec.get("stripComponents")
    if isinstance(strip, int | float) and not isinstance(strip, bool):
        normal["stripComponents"] = strip
    return normal if _NEEDS[kind] in normal else None


def installers(value: Json) -> tuple[Installer, ...]:
    """Everything the author offers, whether or not OpenClaw would take it."""
    if isinstance(value, list):
        return tuple(each for item in value for each in installers(item))
    if isinstance(value, str):
        return (Installer(kind="shell", target=value.strip(SPACE)),) if value.strip(SPACE) else ()
    if not isinstance(value, dict) or not value:
        return ()
    if kind_of(value):
        return (_installer(value),)
    if any(isinstance(item, dict | list) or key in _TARGETS for key, item in value.items()):
        return (_installer({**value, "kind": "other"}),)
    return tuple(Installer(kind=kind, target=text(target)) for kind, target in value.items())


def _installer(spec: dict[str, Json]) -> Installer:
    kind = kind_of(spec)
    used = next((key for key in _TARGETS if spec.get(key) not in (None, "", [], {})), "")
    target = spec.get(used)
    if isinstance(target, list):
        target = " ".join(text(item) for item in target)
    label = spec.get("label")
    return Installer(
        kind=kind,
        target="" if target is None else text(target),
        label=label if isinstance(label, str) else "",
        binaries=tuple(strings(spec.get("bins"))),
        os=tuple(strings(spec.get("os"))),
        details={key: item for key, item in spec.items() if key not in _COMMON and key != used},
    )
