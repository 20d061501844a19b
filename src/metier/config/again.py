"""The configuration read once more, for a decision that must not rest on what was read some time ago. Blocking."""

import os

from metier.config.load import load
from metier.config.settings import Settings
from metier.errors import ConfigError
from metier.model.text import one_line


def read_again(settings: Settings) -> Settings:
    """The same files, as they are now.

    Raises:
        ConfigError: when one cannot be read, or one that was named is gone.
    """
    return _read(settings, settings.project)


def read_where_asked(settings: Settings, project: str) -> Settings:
    """`settings` with what the project a request comes from restricts, as that is written now: it goes with the request, wherever somebody
    decides.

    Args:
        project: real path of its folder; empty for one that was asked in none.

    Raises:
        ConfigError: when it cannot be read, or that folder is gone.
    """
    if not project:
        return settings
    if not os.path.isdir(project):
        raise ConfigError(
            f"the project it was asked in, {one_line(project, 200)}, is gone",
            remedy="Put it back, or call again elsewhere",
        )
    return _read(settings, project)


def _read(settings: Settings, project: str) -> Settings:
    usual = os.path.join(settings.home, "metier.toml")
    own = settings.files[0] if settings.files else usual
    # One that was named must be there: the usual one in its place may say less.
    return load(config=own if own != usual else None, home=settings.home, project=project)
