"""Print the section of CHANGELOG.md that belongs to a tag: ``release_notes.py v0.2.0``."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def notes(tag: str, changelog: str, version: str) -> str:
    """The section of the version.

    Args:
        tag: ``v`` and the version.
        changelog: The text of CHANGELOG.md.
        version: The version that the package states.

    Raises:
        ValueError: The tag is not that of the version, or the version has no section.
    """
    if tag != f"v{version}":
        raise ValueError(f"The tag {tag} is not v{version}, the version of hvdprof/__init__.py.")
    for section in changelog.split("\n## ")[1:]:
        head, _, text = section.partition("\n")
        if re.match(rf"\[?{re.escape(version)}(?![\w.])", head):
            return f"{text.strip()}\n"
    raise ValueError(f"CHANGELOG.md has no section on {version}.")


def main() -> int:
    """Print the notes; 1 with the reason on standard error where there are none."""
    source = (ROOT / "hvdprof" / "__init__.py").read_text(encoding="utf-8")
    version = re.search(r'^__version__ = "(.*)"$', source, re.MULTILINE)
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    try:
        sys.stdout.write(notes(sys.argv[1], changelog, version[1] if version else ""))
    except ValueError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
