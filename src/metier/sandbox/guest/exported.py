"""What an XBot contract says that exists only as Python code: the module is imported, and what it has is read off as
plain data. Functions become the fact that they are there; nothing of the skill is called.

Standard library only: the package is not importable here.
"""

import os
import sys

PROBE = "metier:probe"
"""The function that no file has: what it stands for is done here."""
MOST_PARTS = 10_000
MOST_DEPTH = 24
FIELDS = ("id", "version", "name", "description", "settings", "capabilities", "intents", "actions")


def imported(path: str, module: str) -> object:
    """The package or module whose file is `path`; `module` is the name it calls itself by."""
    import importlib.util  # most runs need none of it

    package = os.path.basename(path) == "__init__.py"
    search = [os.path.dirname(path)] if package else None
    spec = importlib.util.spec_from_file_location(module, path, submodule_search_locations=search)
    if spec is None or spec.loader is None:
        raise ImportError("the file is no Python module")
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[module] = loaded
    spec.loader.exec_module(loaded)
    return loaded


def contract_of(path: str, module: str) -> "dict[str, object]":
    """The contract of the package or module whose file is `path`."""
    loaded = imported(path, module)
    skill: object = getattr(loaded, "skill", None)
    if skill is not None:
        return {"contract": read(skill)}
    if callable(getattr(loaded, "register_skill", None)):
        return {"contract": {"legacy": True}}
    raise AttributeError("the package has neither `skill` nor a function `register_skill`")


def read(skill: object) -> "dict[str, object]":
    """The fields of a contract, written as a dict or as the attributes of any object."""
    named: dict[object, object] = {name: getattr(skill, name, None) for name in FIELDS}
    if isinstance(skill, dict):
        named = {**skill}
    told = {
        str(name): plain(value, [0], 0)
        for name, value in named.items()
        if value is not None
        and str(name) not in ("on_enable", "on_disable", "has_on_enable", "has_on_disable", "legacy")
    }
    for hook in ("on_enable", "on_disable"):
        given = named.get(hook) if isinstance(skill, dict) else getattr(skill, hook, None)
        told[f"has_{hook}"] = callable(given)
    return told


def plain(value: object, parts: "list[int]", depth: int) -> object:
    """The value as JSON could say it. What it cannot say is refused when it is sent."""
    parts[0] += 1
    if parts[0] > MOST_PARTS or depth > MOST_DEPTH:
        raise ValueError("what the contract says is too large, too deep, or leads back into itself")
    if isinstance(value, dict):
        given: dict[object, object] = value  # pyright: ignore[reportUnknownVariableType]
        return {str(name): plain(each, parts, depth + 1) for name, each in given.items()}
    if isinstance(value, list | tuple | set | frozenset):
        several: list[object] = [*value]
        return [plain(each, parts, depth + 1) for each in several]
    return True if callable(value) else value
