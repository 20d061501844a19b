"""What looks better on a terminal. The only module that imports rich, and only when there is a terminal."""

from rich.console import Console
from rich.table import Table
from rich.text import Text

from metier.catalog.listed import Listed
from metier.model.text import one_line


def show_list(listed: list[Listed]) -> None:
    """The skills as a table that fits the window."""
    names = [one_line(each.name, 32) for each in listed]
    table = Table(box=None, padding=(0, 1, 0, 0), show_header=False, expand=True)
    table.add_column(width=1)
    table.add_column(width=2)
    table.add_column(no_wrap=True, overflow="ellipsis", min_width=min(24, max(map(len, names), default=1)))
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for each, name in zip(listed, names, strict=True):
        usable = each.shown == "usable"
        about = one_line(each.skill.description, 300) if each.skill else ""
        if not usable:
            about = f"{each.shown.replace('_', ' ')}: {one_line(each.why, 300)}"
        elif each.held_back:
            about = f"({each.held_back}) {about}"
        table.add_row(
            Text("✓" if usable else "✗", style="green" if usable else "red"),
            Text(one_line(each.skill.emoji, 8) if each.skill else ""),
            Text(name, style="bold" if usable else "dim"),
            Text(about, style="" if usable else "dim"),
        )
    Console(highlight=False).print(table)
