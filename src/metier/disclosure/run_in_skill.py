"""`run_in_skill`: a script or a declared program of a skill that is only a text, under that skill's name and permissions."""

from typing import Final

from metier.model.entry import Program
from metier.model.in_skill import ENDINGS, MOST_ARGUMENT, MOST_ARGUMENTS, MOST_FILES, MOST_TEXT
from metier.model.skill import Tool

TOOL: Final = Tool(
    name="run_in_skill",
    description=(
        "Run what a skill's instructions tell you to run: one of the skill's own scripts, or a program that the skill "
        "declares. Give `script` or `binary`, not both. It starts in an empty folder that holds `files`; what it writes "
        "into the folder `out` there ($METIER_OUT) is kept. Read the skill first (read_skill)."
    ),
    parameters={
        "type": "object",
        "properties": {
            "name": {"type": "string", "minLength": 1, "maxLength": 200, "description": "Name of the skill"},
            "script": {
                "type": "string",
                "minLength": 1,
                "maxLength": 1024,
                "description": f"One of the files the skill lists ({', '.join(ENDINGS)}), for example scripts/report.py",
            },
            "binary": {
                "type": "string",
                "minLength": 1,
                "maxLength": 200,
                "description": "One of the programs the skill declares, by its name",
            },
            "args": {
                "type": "array",
                "maxItems": MOST_ARGUMENTS,
                "items": {"type": "string", "maxLength": MOST_ARGUMENT},
                "description": "Each argument by itself. Nothing is read by a shell",
            },
            "files": {
                "type": "object",
                "maxProperties": MOST_FILES,
                "additionalProperties": {"type": "string", "maxLength": MOST_TEXT},
                "description": "Texts it can read in the folder it starts in, by their name there, for example input.csv",
            },
        },
        "required": ["name"],
        "additionalProperties": False,
    },
    returns={
        "type": "object",
        "properties": {
            "stdout": {"type": "string"},
            "stderr": {"type": "string"},
            "exit_code": {"type": "integer"},
            "truncated": {"type": "boolean"},
            "artifacts": {"type": "array"},
        },
        "required": ["stdout", "stderr", "exit_code", "truncated"],
    },
    subject="name",
    subject_file="script",
    as_subject=True,
    effect="act",
    risk="high",
    minimum_trust="supervised_auto",
    entry=Program(),
)
