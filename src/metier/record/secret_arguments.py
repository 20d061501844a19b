"""Arguments that are secret by what their operation does with them, whatever they look like. Pure.

The record, hooks and triggers are given `kept_arguments`. That settings were changed and which is worth knowing; what they were
set to is told by the outcome, with the secret ones masked.
"""

from typing import Final

from metier.model.digest import Json
from metier.record.secret_text import MASK

_PLAIN: Final[dict[str, frozenset[str]]] = {
    "settings.set_skill": frozenset({"skill_id"}),
    "secrets.set": frozenset({"name"}),
}
"""By operation: the arguments that are not secret. All others are."""
_DEPTH: Final = 32


def holds_secrets(tool: str) -> bool:
    """Whether arguments of this tool may be secrets. Then they are not kept anywhere, not even to wait for somebody's word."""
    return tool in _PLAIN


def kept_arguments(tool: str, arguments: Json) -> Json:
    """The arguments as they may be kept and shown."""
    plain = _PLAIN.get(tool)
    if plain is None:
        return arguments
    if not isinstance(arguments, dict):
        return MASK
    return {name: item if name in plain else _hidden(item, 0) for name, item in arguments.items()}


def _hidden(value: Json, depth: int) -> Json:
    """The names that were given, and nothing that stood under them."""
    if isinstance(value, dict) and depth < _DEPTH:
        return {name: _hidden(item, depth + 1) for name, item in value.items()}
    return None if value is None else MASK
