"""Every exception Metier raises on purpose.

    MetierError
    ├── ConfigError        a configuration file cannot be read or says something unknown
    ├── StateError         the state folder or its database cannot be used
    ├── RecordError        the audit log cannot be written or read; nothing may run
    ├── BundleError        a skill's folder cannot be turned into a snapshot
    └── NoHost             it takes the process that runs what lives and waits, and there is none

Expected ends of a call are values (`metier.model.outcome`), never exceptions. What is raised here is a
fault of the machine or of its set-up, so each class carries a stable `code` and says the way out.
"""

from typing import ClassVar


class MetierError(Exception):
    """Base of all deliberate errors. `code` is stable; the text is for people."""

    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy
        """What to do about it, in words a tired person can follow."""

    def __str__(self) -> str:
        return f"{self.message}. {self.remedy}" if self.remedy else self.message


class ConfigError(MetierError):
    """A configuration file cannot be read, or says something Metier does not know."""

    code = "config_invalid"


class StateError(MetierError):
    """The state folder or its database cannot be used."""

    code = "state_unavailable"


class RecordError(MetierError):
    """The audit log cannot be written or read. Whoever meets this must not act."""

    code = "record_unavailable"


class BundleError(MetierError):
    """A skill's folder cannot be turned into a snapshot."""

    code = "bundle_refused"


class NoHost(MetierError):
    """What is asked for is done by the process that holds the host role, and there is none."""

    code = "no_host"
