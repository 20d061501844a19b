"""The module `secrets`: what the operator keeps under a name, for skills that were granted the name. For operators only.

A value comes sealed by the door that took it, so neither the record nor anybody who looks at calls sees it; and no operation
gives one back.
"""

from collections.abc import Callable, Mapping
from typing import Final, final

from anyio import to_thread

from metier.config.secret_references import NAME
from metier.host.sealed import Sealed
from metier.kernel.operation import NOTHING, Asked, Module, OperationError, module, offered
from metier.model.digest import Json
from metier.model.role import SETTINGS
from metier.model.text import one_line

BAD_PARAMS: Final = "E_SETTINGS_BAD_PARAMS"
_NAME: Final[dict[str, Json]] = {"type": "string", "minLength": 1, "maxLength": 128}
_ONE: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {"name": _NAME},
    "required": ["name"],
    "additionalProperties": False,
}
_SET: Final[dict[str, Json]] = {
    **_ONE,
    "properties": {"name": _NAME, "sealed": {"type": "string", "maxLength": 1_000_000}},
    "required": ["name", "sealed"],
}
_KEY: Final[dict[str, Json]] = {
    "type": "object",
    "properties": {"place": {"enum": ["file", "keyring"]}},
    "additionalProperties": False,
}


def wrapped_for(name: str) -> str:
    """What a secret is for that a door seals before it sends it to be kept."""
    return f"secret:{name}"


@final
class SecretStore:
    """What is done about secrets."""

    def __init__(self, sealed: Sealed, references: Callable[[], Mapping[str, str]]) -> None:
        """`references` are those of `[secrets]` as they are now."""
        self._sealed = sealed
        self._references = references

    def module(self) -> Module:
        """`secrets.set`, `list`, `remove` and `key`."""
        return module(
            "secrets",
            offered(
                "secrets.set",
                self._set,
                "Keep a secret under a name.",
                _SET,
                audience="operator",
                permission=SETTINGS,
            ),
            offered(
                "secrets.list",
                self._list,
                "List the names of secrets and where each lies.",
                NOTHING,
                effect="read",
                risk="low",
                audience="operator",
                permission=SETTINGS,
            ),
            offered(
                "secrets.remove",
                self._remove,
                "Forget a secret.",
                _ONE,
                audience="operator",
                permission=SETTINGS,
            ),
            offered(
                "secrets.key",
                self._key,
                "Say where the key lies that opens the secrets, or have it lie elsewhere.",
                _KEY,
                audience="operator",
                permission=SETTINGS,
            ),
        )

    async def _key(self, asked: Asked) -> Json:
        match asked.arguments.get("place"):
            case "file" | "keyring" as place:
                await to_thread.run_sync(self._sealed.move_key, place)
            case _:
                pass
        return {"ok": True, "place": await to_thread.run_sync(self._sealed.key_place)}

    async def _set(self, asked: Asked) -> Json:
        name, sealed = asked.arguments.get("name"), asked.arguments.get("sealed")
        if not isinstance(name, str) or not isinstance(sealed, str) or not NAME.fullmatch(name):
            raise OperationError(
                BAD_PARAMS,
                "a secret's name has letters, digits, dots, hyphens and underscores, a letter first",
            )

        def keep() -> bool:
            value = self._sealed.unwrapped(sealed, wrapped_for(name))
            there = name in self._sealed.names()
            self._sealed.write(name, value)
            return there

        try:
            there = await to_thread.run_sync(keep)
        except ValueError as error:
            raise OperationError(BAD_PARAMS, str(error)) from None
        answer: dict[str, Json] = {"ok": True, "name": name, "replaced": there}
        kind = self._references().get(name, "").partition("://")[0]
        if kind and self._references()[name] != f"sealed://{name}":
            answer["note"] = f"[secrets] in metier.toml says {kind}:// for this name, and that counts"
        return answer

    async def _list(self, asked: Asked) -> Json:
        kept = await to_thread.run_sync(self._sealed.names)
        written = self._references()
        rows: list[Json] = [
            {"name": name, "kind": written[name].partition("://")[0] if name in written else "sealed"}
            for name in sorted({*written, *kept})
        ]
        return {"ok": True, "secrets": rows}

    async def _remove(self, asked: Asked) -> Json:
        name = asked.arguments.get("name")
        if not isinstance(name, str) or not await to_thread.run_sync(self._sealed.remove, name):
            shown = one_line(name, 80) if isinstance(name, str) else ""
            raise OperationError(
                BAD_PARAMS, f"no secret {shown!r} was kept here; `metier secrets list` shows all"
            )
        return {"ok": True, "name": name}
