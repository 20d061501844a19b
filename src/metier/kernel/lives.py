"""Configuration and what people started since it was written: together they say which packages count."""

import os

from metier.config.settings import Settings


def with_lives(settings: Settings) -> Settings:
    """The settings as they count now. Blocking, where anything is kept for modules.

    Raises:
        StateError: when what is kept for modules cannot be read.
    """
    if not os.path.exists(os.path.join(settings.home, "kernel.db")):
        return settings
    from metier.kernel.skill_record import counted  # most installations have none of it

    return counted(settings)
