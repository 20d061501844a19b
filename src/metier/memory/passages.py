"""A long text in passages, so that one thing said in the middle of it is found too."""

from typing import Final

LONGEST: Final = 600
"""Characters: about a hundred words, as much as one vector can say something about."""
MOST: Final = 128


def passages(text: str) -> list[str]:
    """`text` in pieces of at most 600 characters, cut between paragraphs where that is possible; at most 128 of them."""
    found: list[str] = []
    held = ""
    for paragraph in text.split("\n\n"):
        paragraph = paragraph.strip()
        if held and len(held) + len(paragraph) + 2 > LONGEST:
            found.append(held)
            held = ""
        held = f"{held}\n\n{paragraph}" if held else paragraph
        while len(held) > LONGEST:
            cut = held.rfind(" ", LONGEST // 2, LONGEST)
            cut = LONGEST if cut < 0 else cut
            found.append(held[:cut])
            held = held[cut:].strip()
        if len(found) >= MOST:
            return found[:MOST]
    if held:
        found.append(held)
    return found
