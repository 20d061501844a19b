"""A manifest that is a JSON or YAML file of its own: its fields, or what is wrong with it. No input makes it raise."""

import re
from typing import Final

from metier.dialects import strict_yaml
from metier.dialects.frontmatter import MAX_BLOCK, Document
from metier.model import strictjson
from metier.model.diagnostic import Diagnostic
from metier.model.text import one_line

_BOM: Final = b"\xef\xbb\xbf"
_YAML: Final = (".yaml", ".yml")


def read(data: bytes, manifest: str) -> Document:
    """The fields of a manifest. What its name ends in says which of the two it is."""
    data = data.removeprefix(_BOM)
    if len(data) > MAX_BLOCK:
        return _refused("too_large", f"the file has {len(data)} bytes and {MAX_BLOCK} are the most", None)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        return _refused("not_utf8", f"byte {error.start} is not UTF-8; save the file as UTF-8", line)
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    return _yaml(text) if manifest.lower().endswith(_YAML) else _json(text)


def _json(text: str) -> Document:
    try:
        fields = strictjson.loads(text)
    except ValueError as error:
        said = str(error)
        place = re.search(r"line (\d+)", said)
        return _refused("bad_json", f"it is no strict JSON: {said}", int(place[1]) if place else None)
    if not isinstance(fields, dict):
        return _refused("not_a_map", "it is JSON, but no object; write { … } with the fields of the skill", 1)
    return Document(fields=fields, block=text)


def _yaml(text: str) -> Document:
    found, changed = strict_yaml.load(text)
    if isinstance(found, strict_yaml.Trouble):
        return _refused(found.code, found.message, found.line)
    notes = tuple(
        Diagnostic(code=each.code, severity="warning", message=each.message, line=each.line)
        for each in changed
    )
    try:
        strictjson.check(found)
    except ValueError as error:
        return _refused("bad_yaml", f"it holds what no JSON could: {one_line(str(error), 200)}", None)
    return Document(fields=found, diagnostics=notes, block=text)


def _refused(code: str, message: str, line: int | None) -> Document:
    problem = Diagnostic(code=code, severity="error", message=message, line=line)
    return Document(fields=None, diagnostics=(problem,))
