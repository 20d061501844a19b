"""What a reader has to say about a file: never an exception, always with a place where there is one."""

from typing import Literal, final

from msgspec import Struct

Severity = Literal["error", "warning", "info"]


@final
class Diagnostic(Struct, frozen=True, kw_only=True, gc=False):
    """One finding about one file. An `error` means the skill cannot be used as it is."""

    code: str
    """Stable and machine-readable, for example `yaml_repaired`."""
    severity: Severity
    message: str
    line: int | None = None
    """1-based line in the file, where the finding has one."""
