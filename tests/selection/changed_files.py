"""Which files differ from a commit: committed since, uncommitted, and untracked."""

import subprocess
from pathlib import Path

MAIN = "origin/main"


class NoBaseError(Exception):
    """There is no commit to compare with."""


def default_base(root: Path) -> tuple[str, str]:
    """The commit that a change starts from, and how it was found.

    Raises:
        NoBaseError: The repository has no such commit.
    """
    for command, found in (
        (("merge-base", "HEAD", MAIN), f"merge base with {MAIN}"),
        (("rev-parse", "--verify", "HEAD~1"), "HEAD~1"),
    ):
        asked = _git(root, *command)
        if asked.returncode == 0:
            return asked.stdout.strip(), found
    raise NoBaseError(f"There is neither {MAIN} nor a commit before HEAD: state BASE=COMMIT.")


def changed_files(root: Path, base: str) -> list[str]:
    """Paths from the root of the repository; the old and the new one of a renamed file.

    Raises:
        NoBaseError: There is no such commit.
    """
    names: set[str] = set()
    for command in (
        ("diff", "--name-only", "--no-renames", "--no-ext-diff", "-z", base, "--"),
        ("ls-files", "--others", "--exclude-standard", "-z"),
    ):
        asked = _git(root, *command)
        if asked.returncode != 0:
            raise NoBaseError(f"git cannot compare with {base}: {asked.stderr.strip()}")
        names.update(asked.stdout.split("\0"))
    return sorted(names - {""})


def _git(root: Path, *arguments: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        ["git", *arguments], cwd=root, capture_output=True, text=True, check=False
    )
