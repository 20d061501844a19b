"""Names of files and folders that other programs, or Metier itself, run or believe, however they are cased. Pure."""

import unicodedata
from typing import Final

_REPOSITORIES: Final = frozenset({".git", ".hg", ".svn", ".gitconfig", ".gitmodules", ".husky", ".github"})
_KEYS: Final = frozenset({".ssh", ".gnupg", ".aws", ".kube", ".docker", ".netrc", ".password-store", ".pki"})
_SHELLS: Final = frozenset(
    {
        ".bashrc",
        ".bash_profile",
        ".bash_login",
        ".bash_logout",
        ".bash_aliases",
        ".profile",
        ".inputrc",
        ".envrc",
    }
    | {".zshrc", ".zshenv", ".zprofile", ".zlogin", ".zlogout", ".oh-my-zsh", ".tmux.conf", ".screenrc"}
)
_PROGRAMS: Final = frozenset(
    {
        ".config",
        ".local",
        ".npmrc",
        ".yarnrc",
        ".yarnrc.yml",
        ".pypirc",
        ".pre-commit-config.yaml",
        ".devcontainer",
        ".devcontainer.json",
        ".tool-versions",
        ".direnv",
        ".env",
    }
    | {".vim", ".vimrc", ".emacs", ".emacs.d", ".vscode", ".idea", ".mozilla", ".thunderbird", ".terraform.d"}
    | {".cargo", ".rustup", ".pyenv", ".rbenv", ".nvm", ".bun", ".deno", ".gem", ".bundle", ".m2", ".gradle"}
    | {".venv", "node_modules", "site-packages", "dist-packages"}
)
_AGENTS: Final = frozenset(
    {
        ".metier",
        ".claude",
        ".codex",
        ".cursor",
        ".gemini",
        ".agents",
        ".skills",
        ".openclaw",
        ".omniagent",
        ".windsurf",
    }
    | {".continue", ".mcp.json", ".cursorrules", ".windsurfrules", ".clinerules"}
    | {
        "AGENTS.md",
        "CLAUDE.md",
        "CLAUDE.local.md",
        "GEMINI.md",
        "SKILL.md",
        "skill.json",
        "skill.yaml",
        "SKILL_MANIFEST.json",
        "metier.toml",
    }
)
PROTECTED_NAMES: Final = _REPOSITORIES | _KEYS | _SHELLS | _PROGRAMS | _AGENTS
_FOLDED: Final = frozenset(name.casefold() for name in PROTECTED_NAMES)


def protected_part(path: str) -> str:
    """The first part of `path` that is one of these names, or that some file system takes for one; empty when none is."""
    for part in path.split("/"):
        folded = unicodedata.normalize("NFKC", part).casefold().rstrip(" .")
        if part and folded in _FOLDED:
            return part
    return ""
