"""Whether a path names a file of the skill, asked on this side of every sandbox: what a guest says of a file it does not
find names folders of the host."""

import os


def not_in_bundle(path: str, bundle: str) -> str:
    """Why the file `path` of a skill cannot be run; empty when it can.

    Args:
        bundle: the folder of the skill's stored copy; empty where a call has no skill.
    """
    if not bundle:
        return f"{path!r} is a file of a skill, and this call has no skill"
    if "\0" in path or any(part in ("", ".", "..") for part in path.split("/")):
        return f"{path!r} is not a path inside the skill"
    whole = os.path.join(bundle, path)
    if os.path.realpath(whole) != whole or not os.path.isfile(whole):
        return f"{path!r} is not a file of the skill"
    return ""
