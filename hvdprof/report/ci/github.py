"""Annotations of GitHub Actions on standard output, and a page in the summary of the step.

The runner shows ten annotations of a kind and step, and a summary of up to 1 MiB.
"""

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO

from hvdprof.errors import StorageError

SUMMARY_VARIABLE = "GITHUB_STEP_SUMMARY"
MOST_ANNOTATIONS = 10
MOST_SUMMARY_BYTES = 1_000_000
_CUT = "\n\nThe rest is longer than a summary may be.\n"


class AnnotationKind(StrEnum):
    """The commands of the runner."""

    ERROR = "error"
    WARNING = "warning"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class Annotation:
    """What the runner shows beside the step."""

    kind: AnnotationKind
    title: str
    text: str

    def command(self) -> str:
        """The line that the runner reads."""
        title = _escaped(self.title).replace(":", "%3A").replace(",", "%2C")
        return f"::{self.kind} title={title}::{_escaped(self.text)}"


def write_github(annotations: Iterable[Annotation], page: str, stream: IO[str]) -> None:
    """Write at most ten annotations of a kind, and append a Markdown page to the step's summary.

    Outside GitHub Actions, without ``GITHUB_STEP_SUMMARY``, the page follows the annotations.

    Raises:
        StorageError: The summary could not be written.
    """
    written: Counter[AnnotationKind] = Counter()
    for annotation in annotations:
        written[annotation.kind] += 1
        if written[annotation.kind] <= MOST_ANNOTATIONS:
            stream.write(annotation.command() + "\n")
    summary = os.environ.get(SUMMARY_VARIABLE)
    if summary is None:
        stream.write(page)
        return
    try:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(_bounded(page))
    except OSError as error:
        raise StorageError(
            f"Could not append to {summary}: {error.strerror}.",
            hint=f"{SUMMARY_VARIABLE} names the summary of the step.",
        ) from error


def _escaped(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _bounded(page: str) -> str:
    if len(page.encode()) <= MOST_SUMMARY_BYTES:
        return page
    room = MOST_SUMMARY_BYTES - len(_CUT.encode())
    return page.encode()[:room].decode(errors="ignore") + _CUT
