"""Which dialect a file is written in, by its name, and the skill it describes. The one way from bytes to a skill."""

from metier.dialects import skill_md
from metier.dialects.beside import Files, with_code
from metier.dialects.compiled import Compiled
from metier.model.skill import Source


def compile_manifest(data: bytes, *, folder: str, manifest: str, files: Files) -> Compiled:
    """The skill that the file `manifest` describes; nothing raises, what cannot become a skill becomes diagnostics.

    Args:
        folder: the name of the folder it lies in, not a path.
        manifest: the name of the file.
        files: the names of the files beside it.
    """
    return with_code(read_manifest(data, folder=folder, manifest=manifest), files)


def read_manifest(
    data: bytes, *, folder: str, manifest: str, location: str = "", source: Source = "user"
) -> Compiled:
    """The same as far as the file alone can tell: which code beside it is run says `with_code`.

    Args:
        folder: the name of the folder it lies in, not a path.
        manifest: the name of the file.
        location: where the skill lies, passed on as it is.
        source: where it came from, passed on as it is.
    """
    name = manifest.lower()
    if name in ("skill.json", "skill.yaml", "skill.yml"):
        from metier.dialects import friday  # a listing of thousands meets few of these

        return friday.compile_skill(data, folder=folder, manifest=manifest, location=location, source=source)
    if name == "mcp_server.json":
        from metier.dialects import mcp_server

        return mcp_server.waiting(data, folder=folder, manifest=manifest, location=location, source=source)
    if name.endswith((".ts", ".js", ".py")) or name == "package.json":
        from metier.dialects import code_manifest

        return code_manifest.waiting(data, folder=folder, manifest=manifest, location=location, source=source)
    if name.endswith(".json"):
        from metier.dialects import metahuman

        return metahuman.compile_skill(data, manifest=manifest, location=location, source=source)
    return skill_md.compile_skill(data, folder=folder, manifest=manifest, location=location, source=source)


def instructions(data: bytes, manifest: str) -> str:
    """What a skill tells a model: the text after the frontmatter, or the field that says it."""
    name = manifest.lower()
    if name.endswith((".ts", ".js", ".py")) or name == "package.json":
        return ""
    if name == "mcp_server.json":
        return ""
    if name.endswith((".json", ".yaml", ".yml")):
        from metier.dialects.manifest_file import read

        text = (read(data, manifest).fields or {}).get("instructions")
        return text if isinstance(text, str) else ""
    from metier.dialects.frontmatter import body

    return body(data)
