"""Every page about skills."""

from typing import Final

from metier.doors.http.console import skills, skills_files, skills_one, skills_settings, skills_try
from metier.doors.http.console.page import Page

PAGES: Final[tuple[Page, ...]] = (
    *skills.PAGES,
    *skills_one.PAGES,
    *skills_files.PAGES,
    *skills_settings.PAGES,
    *skills_try.PAGES,
)
