"""Who sits at the terminal: the local user, by the number the system knows him by."""

import os


def owner() -> str:
    """Stable id of the person at the terminal."""
    return f"human:uid-{os.getuid()}" if hasattr(os, "getuid") else "human:local"
