"""Takes log prefixes off one line: those that it shows itself, and one that its file has.

Tested in ``tests/ingest/text/test_log_lines.py``.
"""

import re
from typing import NamedTuple

from hvdprof.ingest.text.file_forms import FileForm
from hvdprof.ingest.text.prefix_forms import LINES
from hvdprof.rundir.json_text import parse_json
from hvdprof.rundir.log_prefixes import without_colours

MOST_FORMS = 8
_JSON_TEXTS = ("log", "MESSAGE", "textPayload")
"""The text of a line in docker's json-file driver, ``journalctl -o json`` and Google's logs."""

_JSON_STAMPS = ("time", "timestamp")
_NAME = re.compile(r"\(\?P<([a-z]+)>")
_ANY_LINE = re.compile(
    "|".join(
        # Names of groups are unique in a pattern: the number of the form makes them so.
        "(?P<form_{}>{})".format(number, _NAME.sub(rf"(?P<\1_{number}>", form.pattern))
        for number, form in enumerate(LINES)
    )
)
_match = _ANY_LINE.match
_MAY_BEGIN = re.compile(r"[\[({<\ufeff]|\d{4}-| +\[| *[A-Z][a-z]{2} ").match
"""How the forms above begin: a tag, a year, the name of a month or day."""


class Peeled(NamedTuple):
    """A text without log prefixes, and what they said; ``partial``: the next line continues it."""

    text: str
    rank: int | None = None
    host: str = ""
    stamp: str = ""
    partial: bool = False


def _places(pattern: re.Pattern[str], number: str) -> tuple[int, int, int, int]:
    """The groups of rank, host, stamp and continuation; 0 for none."""
    names = (name + number for name in ("rank", "host", "stamp", "partial"))
    rank, host, stamp, partial = (pattern.groupindex.get(name, 0) for name in names)
    return rank, host, stamp, partial


_PLACES = {f"form_{number}": _places(_ANY_LINE, f"_{number}") for number in range(len(LINES))}


def may_have_prefix(text: str) -> bool:
    """Whether a text may show a prefix itself: a cheap look at its first letters."""
    return _MAY_BEGIN(text) is not None


def peeled(before: Peeled) -> Peeled:
    """A text without the prefixes that it shows itself; what the innermost says counts."""
    text, rank, host, stamp, partial = before
    found = _match(text)
    for _ in range(MOST_FORMS):
        if text.startswith("{"):
            record = _record(text)
            if record is None:
                break
            text, stamp, partial = record[0], record[1] or stamp, record[2]
        elif found is not None and found.end():
            of_rank, of_host, of_stamp, of_partial = _PLACES[found.lastgroup or ""]
            if of_rank and found[of_rank]:
                rank = int(found[of_rank])
            if of_host:
                host = found[of_host] or host
            if of_stamp:
                stamp = found[of_stamp] or stamp
            partial = of_partial > 0 and found[of_partial] == "P"
            text = text[found.end() :]
        else:
            break
        found = _match(text) if _MAY_BEGIN(text) else None
    return Peeled(text, rank, host, stamp, partial)


def peeled_of(before: Peeled, layer: FileForm) -> Peeled:
    """A text without a prefix that its file has, and without those behind it."""
    found = layer.match(before.text)
    if found is None:
        return before
    said = found.groupdict()
    rank = int(said["rank"]) if said.get("rank") else before.rank
    host = said.get("host") or before.host
    return peeled(Peeled(before.text[found.end() :], rank, host, before.stamp, before.partial))


def _record(text: str) -> tuple[str, str, bool] | None:
    """Text and stamp of a line that is a JSON object, and whether docker cut it after 16 KiB."""
    if not any(f'"{name}"' in text for name in _JSON_TEXTS):
        return None
    try:
        record = parse_json(text)
    except ValueError:
        return None
    if not isinstance(record, dict):
        return None
    name = next((name for name in _JSON_TEXTS if isinstance(record.get(name), str)), None)
    if name is None:
        return None
    stamps = (record[key] for key in _JSON_STAMPS if isinstance(record.get(key), str))
    said = without_colours(record[name])
    return said.rstrip("\r\n"), next(stamps, ""), name == "log" and not said.endswith("\n")
