"""A session of a user: files, commands, and what has to come back of each.

A session is a text::

    # What the user wants
    file train.py
        import torch
    $ hvdprof run --np 2 python train.py
    says rank 1, data phase
    never Traceback
    exit 0

``says`` and ``never`` are about the first lines of either stream, ``exit`` about the exit code.
``python -m benchmarks.strangers.session NAME`` plays one and prints what its user sees.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).parent
FIRST_LINES = 24
"""What a user reads before she scrolls; of each stream."""

_TIMEOUT_S = 600
_INDENT = "    "


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that the user has before the next command."""

    name: str
    lines: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Command:
    """A command, and what is known of its result."""

    text: str
    says: list[str] = field(default_factory=list)
    never: list[str] = field(default_factory=list)
    exit_code: int = 0


@dataclass(frozen=True, slots=True)
class Played:
    """The result of a command: both streams, and what is wrong with them, empty for nothing."""

    command: Command
    stdout: str
    stderr: str
    wrong: tuple[str, ...]


def sessions() -> list[str]:
    """The names of all sessions."""
    return sorted(path.stem for path in FOLDER.glob("*.session"))


def parsed(text: str) -> list[WrittenFile | Command]:
    """The steps of a session in their order.

    Raises:
        ValueError: A line is none of those that a session has.
    """
    steps: list[WrittenFile | Command] = []
    for number, line in enumerate(text.splitlines(), start=1):
        last = steps[-1] if steps else None
        word, _, rest = line.partition(" ")
        if isinstance(last, WrittenFile) and (line.startswith(_INDENT) or not line):
            last.lines.append(line.removeprefix(_INDENT))
        elif not line or word == "#":
            continue
        elif word == "file":
            steps.append(WrittenFile(rest))
        elif word == "$":
            steps.append(Command(rest))
        elif isinstance(last, Command) and word == "says":
            last.says.append(rest)
        elif isinstance(last, Command) and word == "never":
            last.never.append(rest)
        elif isinstance(last, Command) and word == "exit":
            last.exit_code = int(rest)
        else:
            raise ValueError(f"line {number} is no step of a session: {line}")
    return steps


def play(name: str, folder: Path, environment: Mapping[str, str]) -> Iterator[Played]:
    """Play a session in an empty folder, command by command."""
    for step in parsed((FOLDER / f"{name}.session").read_text(encoding="utf-8")):
        if isinstance(step, WrittenFile):
            (folder / step.name).write_text("\n".join(step.lines) + "\n", encoding="utf-8")
            continue
        done = subprocess.run(
            step.text,
            shell=True,
            cwd=folder,
            env={**environment},
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_S,
            check=False,
        )
        wrong = tuple(_wrong(step, done.stdout, done.stderr, done.returncode))
        yield Played(step, done.stdout, done.stderr, wrong)


def environment_of(prefix: Path) -> dict[str, str]:
    """The environment of a user whose `hvdprof` and `python` are those of a folder."""
    own = {**os.environ, "PATH": f"{prefix}:{os.environ['PATH']}"}
    return own | {"COLUMNS": "100", "NO_COLOR": "1", "OMP_NUM_THREADS": "1"}


def _wrong(command: Command, stdout: str, stderr: str, exit_code: int) -> Iterator[str]:
    if exit_code != command.exit_code:
        yield f"exit code {exit_code} instead of {command.exit_code}"
    first = " ".join(
        word
        for stream in (stdout, stderr)
        for line in stream.splitlines()[:FIRST_LINES]
        for word in line.split()
    )
    yield from (f"does not say {text!r}" for text in command.says if text not in first)
    yield from (f"says {text!r}" for text in command.never if text in stdout + stderr)


def main() -> int:
    """Play one session and print it; 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("name", choices=sessions())
    name = parser.parse_args().name
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for played in play(name, Path(folder), environment_of(Path(sys.executable).parent)):
            print(f"$ {played.command.text}\n{played.stdout}{played.stderr}")
            for text in played.wrong:
                failed += 1
                print(f"WRONG: {text}\n")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
