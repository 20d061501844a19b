"""The `metier` command. The rest is imported where an interrupt is already looked after."""

import sys


def main() -> None:
    try:
        from metier.doors.cli import main as command

        command()
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
