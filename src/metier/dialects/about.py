"""The name and the description every skill has, whatever it is written in: what is refused, and what is said about them."""

from typing import Final

from metier.dialects.draft import Draft
from metier.dialects.names import code_points, is_standard, name_problem, style_problems
from metier.model.skill import Tool
from metier.model.text import hidden, one_line, visible

LONGEST_DESCRIPTION: Final = 1024


def check_name(draft: Draft, name: str, folder: str) -> None:
    """`folder` is what the name should be like: that of its folder, or of its file."""
    if name == folder and is_standard(name):
        return
    if problem := name_problem(name):
        message = f'the name "{one_line(name, 60)}" is refused: {problem}; choose lower-case words joined by hyphens'
        draft.note("bad_name", "error", message, "name")
    elif problems := style_problems(name, folder):
        message = f'the name "{one_line(name, 60)}" departs from the standard: {"; ".join(problems)}'
        draft.note("name_style", "warning", message, "name")


def check_description(draft: Draft, description: str) -> None:
    if description.isascii() and description.isprintable() and 0 < len(description) <= LONGEST_DESCRIPTION:
        return
    if not description:
        fields = draft.document.fields or {}
        other = next((key for key in fields if key.lower() == "description" and key != "description"), None)
        found = f', "{other}" is not read' if other else ""
        message = f"there is no description{found}; write `description: what it does and when to use it`"
        draft.note("no_description", "error", message, other or "description")
        return
    if len(description) > LONGEST_DESCRIPTION:
        message = f"the description has {len(description)} characters, {LONGEST_DESCRIPTION} are allowed; shorten it"
        draft.note("long_description", "warning", message, "description")
    check_hidden(draft, "description", description)


def check_told(draft: Draft, tool: Tool, description: str) -> None:
    """Say that a model is not told all of what a tool says of itself; where it says what the skill says (`description`), that was
    said of the skill."""
    told = len(visible(tool.description))
    if told > LONGEST_DESCRIPTION and tool.description != description:
        message = (
            f"the description of {one_line(tool.name, 80)} has {told} characters; a model is told the first"
            f" {LONGEST_DESCRIPTION}, shorten it"
        )
        draft.note("long_description", "warning", message)


def check_hidden(draft: Draft, key: str, text: str) -> None:
    """Say that a text holds what nobody sees."""
    if unseen := hidden(text):
        message = f"{key} holds characters that cannot be seen ({code_points(unseen)}); remove them"
        draft.note("hidden_characters", "warning", message, key)
