"""What a tool of an MCP server gave back, as a value and files. All of it is a stranger's, and bounded.

Structured content is the value where there is some; else the text; else a list of what there was. Images, sound and other bytes
become files of the call, under names of ours. A link to a resource stays what it is, a text: nobody follows it.
"""

import base64
import binascii
import os
import shutil
import tempfile
from typing import Final, final

import msgspec

from metier.model.digest import Json
from metier.model.job import Fault, Job, Report
from metier.model.text import one_line
from metier.sandbox.artifacts import Artifacts

MOST_BLOCKS: Final = 256
_LONGEST: Final = 2_000
_LONGEST_URI: Final = 2_000
_ENDINGS: Final = {
    "image/png": "png",
    "image/jpeg": "jpg",
    "image/gif": "gif",
    "image/webp": "webp",
    "image/svg+xml": "svg",
    "audio/mpeg": "mp3",
    "audio/wav": "wav",
    "audio/ogg": "ogg",
    "application/pdf": "pdf",
    "application/json": "json",
    "text/plain": "txt",
    "text/csv": "csv",
    "text/html": "html",
    "text/markdown": "md",
}


def report_of(result: dict[str, Json], job: Job) -> Report:
    """How the call ended. Blocking: files are written."""
    blocks = result.get("content")
    structured = result.get("structuredContent")
    if result.get("resultType", "complete") != "complete":
        return _bad("it asks for something instead of answering, which no server is given")
    if not isinstance(blocks, list) or len(blocks) > MOST_BLOCKS:
        return _bad(f"what it gave back holds no content, or more than {MOST_BLOCKS} pieces of it")
    read = _Blocks()
    for block in blocks:
        if problem := read.take(block):
            return _bad(problem)
    if result.get("isError") is True:
        said = "\n".join(read.texts).strip()
        return Report(
            ending="raised", fault=Fault(name="ToolError", message=said[:_LONGEST] or "it said nothing")
        )
    value: Json = structured if structured is not None else read.value
    if structured is not None and not isinstance(structured, dict):
        return _bad("its structured content is no object")
    if len(msgspec.json.encode(value)) > job.limits.output_bytes:
        return _bad(
            f"it gave back more than {job.limits.output_bytes:,} bytes; raise its output_bytes, or ask for less"
        )
    report = Report(ending="returned", value=value)
    return _with_files(report, read.files, job) if read.files else report


@final
class _Blocks:
    """The pieces of one answer."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.files: list[tuple[str, bytes]] = []
        self._all: list[Json] = []
        self._only_texts = True

    @property
    def value(self) -> Json:
        return "\n".join(self.texts) if self._only_texts else {"content": self._all}

    def take(self, block: Json) -> str:
        """Why a piece cannot be used; empty when it can."""
        match block:
            case {"type": "text", "text": str(text)}:
                self.texts.append(text)
                self._all.append({"type": "text", "text": text})
                return ""
            case {"type": "image" | "audio" as kind, "data": str(data), "mimeType": str(media)}:
                return self._file(kind, data, media)
            case {"type": "resource_link", "uri": str(uri)}:
                self._only_texts = False
                name = block.get("name")
                told: dict[str, Json] = {"type": "resource_link", "uri": one_line(uri, _LONGEST_URI)}
                self._all.append(told | ({"name": one_line(name, 200)} if isinstance(name, str) else {}))
                return ""
            case {"type": "resource", "resource": {"uri": str(uri), "text": str(text)}}:
                self._only_texts = False
                self.texts.append(text)
                self._all.append({"type": "resource", "uri": one_line(uri, _LONGEST_URI), "text": text})
                return ""
            case {"type": "resource", "resource": {"uri": str(), "blob": str(data)} as resource}:
                media = resource.get("mimeType")
                return self._file("resource", data, media if isinstance(media, str) else "")
            case _:
                return "a piece of what it gave back is of no kind that is known"

    def _file(self, kind: str, data: str, media: str) -> str:
        try:
            found = base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            return f"its {kind} is no base64"
        name = f"{kind}-{len(self.files) + 1}.{_ENDINGS.get(media.partition(';')[0].strip().lower(), 'bin')}"
        self._only_texts = False
        self.files.append((name, found))
        self._all.append({"type": kind, "file": name})
        return ""


def _with_files(report: Report, files: list[tuple[str, bytes]], job: Job) -> Report:
    artifacts = Artifacts(job)
    top = tempfile.mkdtemp(prefix="metier-mcp-")
    try:
        for name, data in files:
            with open(os.path.join(top, name), "xb") as file:
                file.write(data)
        folder = os.open(top, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            artifacts.take(folder)
        finally:
            os.close(folder)
    finally:
        shutil.rmtree(top, ignore_errors=True)
    return artifacts.told(report)


def _bad(why: str) -> Report:
    return Report(ending="bad_result", fault=Fault(name="BadResult", message=why))
