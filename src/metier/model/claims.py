"""The words by which a client says something about itself."""

from typing import Final

CLAIMS: Final = frozenset({"_ctx", "kernel_cap", "actor"})
"""Members of these names are thrown away from whatever an operation is given, at any depth: who asks is known, and never said."""
