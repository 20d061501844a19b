"""Which names a skill may have, and which names look alike.

A name becomes a path component, a key in a database and a word in a prompt. What could be mistaken for
another place or another skill is refused here; what merely breaks the written standard is left to a warning.
"""

import re
from typing import Final

from metier.model.text import hidden, one_line

OURS: Final = "metier"
"""Who tells what Metier itself tells. No skill is called so, nor anything that looks like it."""
MAX_LENGTH: Final = 200
STANDARD_LENGTH: Final = 64

_STANDARD: Final = re.compile("[a-z0-9]+(?:-[a-z0-9]+)*")
_DEVICES: Final = frozenset(
    ["CON", "PRN", "AUX", "NUL", "CLOCK$", "CONIN$", "CONOUT$"]
    + [port + digit for port in ("COM", "LPT") for digit in "0123456789¹²³"]
)
_SHORT_DEVICES: Final = frozenset(map(str.lower, _DEVICES))
_OURS: Final = frozenset({OURS, "rnetier", "metler", "met1er", "rnetler", "rnet1er"})
"""The names in small letters, digits and hyphens that look like it (a hyphen at the end is no standard name)."""


def is_standard(name: str) -> bool:
    """Whether nothing at all is to be said about `name`, which is so for nearly every skill."""
    return (
        _STANDARD.fullmatch(name) is not None
        and len(name) <= STANDARD_LENGTH
        and name not in _SHORT_DEVICES
        and name not in _OURS
    )


def name_problem(name: str) -> str:
    """Why a skill or folder must not be called `name`; empty when it may."""
    if is_standard(name):
        return ""
    if not name.strip():
        return "it is empty"
    if name in (".", ".."):
        return "it stands for a folder that is already there"
    if "/" in name or "\\" in name:
        return "it holds a path separator"
    if len(name) > MAX_LENGTH:
        return f"it has {len(name)} characters; {MAX_LENGTH} are the most"
    if "\n" in name or "\t" in name:
        return "it holds a line break or a tab"
    if unseen := hidden(name):
        return f"it holds characters that cannot be seen ({code_points(unseen)})"
    if name.partition(".")[0].rstrip().upper() in _DEVICES:
        return "Windows takes it for a device"
    if skeleton(name) == skeleton(OURS):
        return "it is Metier's own, or looks like it"
    return ""


def style_problems(name: str, folder: str) -> list[str]:
    """Where an acceptable name departs from the Agent Skills standard."""
    problems: list[str] = []
    if not _STANDARD.fullmatch(name):
        if name != name.lower():
            problems.append("it has upper-case letters")
        if not all(letter.isalnum() or letter == "-" for letter in name):
            problems.append("it has characters other than letters, digits and hyphens")
        if name.startswith("-") or name.endswith("-") or "--" in name:
            problems.append("its hyphens do not stand singly between words")
    if len(name) > STANDARD_LENGTH:
        problems.append(f"it is longer than {STANDARD_LENGTH} characters")
    if name != folder:
        problems.append(f'it differs from the folder\'s name "{one_line(folder, 80)}"')
    return problems


def tool_skeleton(name: str) -> str:
    """What is left of a tool's name that nobody reads closely: `search.notes` and `searchnotes` are taken for `search_notes`."""
    return skeleton(name.replace("_", "").replace("-", "").replace(".", ""))


def code_points(characters: list[str]) -> str:
    """`U+200B, U+FEFF …` for people who cannot see them."""
    shown = ", ".join(" ".join(f"U+{ord(each):04X}" for each in character) for character in characters[:5])
    return shown + (" …" if len(characters) > 5 else "")


def skeleton(name: str) -> str:
    """What is left of a name when letters that look alike are made equal. Equal skeletons: easily confused."""
    if not name.isascii():
        name = _in_plain_letters(name)
    # Upper case first becomes lower case, so I is i; since I looks like l and 1, all of them are one letter.
    return name.lower().rstrip(".-_ ").translate(_ASCII_LOOKALIKES).replace("rn", "m").replace("vv", "w")


def _in_plain_letters(name: str) -> str:
    import unicodedata  # only names beyond ASCII need it

    seen = name.translate(_LOOKALIKES)
    for character in hidden(seen):
        seen = seen.replace(character, "")
    folded = unicodedata.normalize("NFKC", seen).casefold().translate(_LOOKALIKES)
    bare = unicodedata.normalize("NFKC", folded).replace("\ufe0e", "").replace("\ufe0f", "")
    return bare.casefold()


_ASCII_LOOKALIKES: Final = str.maketrans("i1|0_.", "lllo--")


def _table(pairs: str) -> dict[int, str]:
    return {ord(pair[0]): pair[1] for pair in pairs.split()}


_LOOKALIKES: Final = _table(
    # Cyrillic
    "аa еe оo рp сc уy хx іi јj ѕs ԁd һh ԛq ԝw ӏl ғf үy ҽe ԍg "
    "АA ВB ЕE КK МM НH ОO РP СC ТT УY ХX ІI ЈJ ЅS ԀD ҺH ԚQ ԜW ӀI ҮY "
    # Greek
    "αa οo ρp νv ιi κk υu χx γy τt ϲc ϳj "
    "ΑA ΒB ΕE ΖZ ΗH ΙI ΚK ΜM ΝN ΟO ΡP ΤT ΥY ΧX "
    # Coptic (capitals are folded to these) and Lisu
    "ⲁa ⲃb ⲉe ⲏh ⲓi ⲕk ⲙm ⲛn ⲟo ⲣp ⲥc ⲧt ⲩy ⲭx ⳑl ⳃs "
    "ꓐb ꓑp ꓓd ꓔt ꓖg ꓗk ꓙj ꓚc ꓜz ꓝf ꓟm ꓠn ꓡl ꓢs ꓣr ꓦv ꓧh ꓪw ꓫx ꓬy ꓮa ꓰe ꓲi ꓳo ꓴu "
    # small capitals
    "ᴀa ʙb ᴄc ᴅd ᴇe ꜰf ɢg ʜh ɪi ᴊj ᴋk ʟl ᴍm ɴn ᴏo ᴘp ʀr ꜱs ᴛt ᴜu ᴠv ᴡw ʏy ᴢz "
    # Armenian, Latin extensions and signs
    "օo ոn սu հh ցg զq ɑa ɡg ıi ɩi ǀl ℓl ∣l ⅼl ‐- ‑- ‒- –- —- ―- −- ﹣- －- ․. ⁄/ ∕/"
)
