"""Which log prefixes of a file only many lines together show: numbers, quotes, names of hosts."""

import itertools
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hvdprof.ingest.text import prefix_forms as forms
from hvdprof.ingest.text.prefix_forms import PrefixForm

_FEWEST = 3
_NEARLY_ALL = 0.9
_PART = 0.2
_NUMBER = re.compile(r"\s*\d+(?:\.\d+)?\s*$")
_PART_SRUN = re.compile(forms.PART_SRUN.pattern)
_ENDS_WITH_NUMBER = re.compile(r"[-_]\d{1,6}$")

Test = Callable[[Sequence[str], Sequence[re.Match[str]]], bool]
"""Whether lines have a form, by the lines that are not empty and the matches among them."""


@dataclass(frozen=True, slots=True)
class FileForm:
    """A form that a file has, compiled."""

    form: PrefixForm
    match: Callable[[str], re.Match[str] | None]


def file_form(lines: Sequence[str]) -> FileForm | None:
    """The outermost form that lines have in common; None where they have none.

    Args:
        lines: The first lines of a file, without what one line shows for certain.
    """
    filled = [line for line in lines if line.strip()]
    few = filled[: len(filled) // 8 + 1]
    for pattern, form, test in _CANDIDATES:
        # Nearly all lines have any other form: where none of an eighth has it, the rest is too few.
        if form is not forms.PART_SRUN and not any(map(pattern.match, few)):
            continue
        matches = [found for found in map(pattern.match, filled) if found]
        if matches and test(filled, matches):
            return FileForm(form, pattern.match)
    return None


def _share(lines: Sequence[str], matches: Sequence[re.Match[str]]) -> float:
    return len(matches) / len(lines)


def _is_numbered(lines: Sequence[str], matches: Sequence[re.Match[str]]) -> bool:
    numbers = [int(found["number"][:9]) for found in matches if found["number"]]
    if len(numbers) < _FEWEST or _share(lines, matches) < _NEARLY_ALL:
        return False
    steps = [after - before for before, after in itertools.pairwise(numbers)]
    # Empty lines were left out here, so that some numbers may be missing.
    is_count = min(steps) >= 1 and sum(step == 1 for step in steps) >= len(steps) / 2
    return is_count and not _only_numbers(matches)


def _only_numbers(matches: Sequence[re.Match[str]]) -> bool:
    """Whether most matches are followed by one number alone: pairs of a table such as `8: 6679`."""
    rest = [found for found in matches if _NUMBER.match(found.string, found.end())]
    return len(rest) > len(matches) / 2


def _is_quoted(lines: Sequence[str], matches: Sequence[re.Match[str]]) -> bool:
    return len(matches) == len(lines) or (
        len(lines) >= _FEWEST and _share(lines, matches) >= _NEARLY_ALL
    )


def _is_from_srun(lines: Sequence[str], matches: Sequence[re.Match[str]]) -> bool:
    lists = [found for found in matches if not _PART_SRUN.match(found.string)]
    return (
        _share(lines, matches) >= _NEARLY_ALL
        and len(lists) <= len(matches) / 2
        and _is_from_srun_in_part(lines, matches)
    )


def _is_from_srun_in_part(lines: Sequence[str], matches: Sequence[re.Match[str]]) -> bool:
    ranks = [int(found["rank"]) for found in matches if found.groupdict()["rank"]]
    if not ranks or _only_numbers(matches):
        return False
    if len(matches) == len(lines):
        return not _counts_up(ranks)
    return len(ranks) >= _FEWEST and _share(lines, matches) >= _PART and not _counts_up(ranks)


def _counts_up(numbers: Sequence[int]) -> bool:
    """Whether every number is one above that before it, as in a list of items."""
    pairs = itertools.pairwise(numbers)
    return len(numbers) > 1 and all(after == before + 1 for before, after in pairs)


def _is_named(lines: Sequence[str], matches: Sequence[re.Match[str]]) -> bool:
    """Few names on nearly all lines: each comes up several times."""
    names = {found["host"] for found in matches}
    return (
        len(lines) >= _FEWEST
        and _share(lines, matches) >= _NEARLY_ALL
        and len(names) <= len(matches) / 2
    )


def _is_compose(lines: Sequence[str], matches: Sequence[re.Match[str]]) -> bool:
    names = {found["host"] for found in matches}
    columns = {found[0].index("|") for found in matches}
    numbered = all(map(_ENDS_WITH_NUMBER.search, names))
    of_one = len(names) == 1 and len(matches) == len(lines)
    return _is_named(lines, matches) and len(columns) == 1 and (numbered or of_one)


def _is_stern(lines: Sequence[str], matches: Sequence[re.Match[str]]) -> bool:
    pods = {found["host"] for found in matches}
    shaped = all("-" in pod and re.search(r"\d", pod) for pod in pods)
    return shaped and _is_named(lines, matches)


def _is_pals(lines: Sequence[str], matches: Sequence[re.Match[str]]) -> bool:
    hosts = {found["host"] for found in matches}
    return all(re.search(r"\d", host) for host in hosts) and _is_named(lines, matches)


def _is_indented(lines: Sequence[str], matches: Sequence[re.Match[str]]) -> bool:
    return len(matches) == len(lines)


_CANDIDATES = tuple(
    (re.compile(form.pattern), form, test)
    for form, test in (
        (forms.QUOTED, _is_quoted),
        (forms.GITHUB, _is_quoted),
        *((form, _is_numbered) for form in forms.NUMBERED),
        (forms.COMPOSE, _is_compose),
        (forms.SRUN, _is_from_srun),
        (forms.PART_SRUN, _is_from_srun_in_part),
        (forms.PALS, _is_pals),
        (forms.STERN, _is_stern),
        (forms.INDENTED, _is_indented),
    )
)
