"""Lines without their log prefixes, with the rank, host and time that the prefixes carry."""

import calendar
import re
import time
from collections.abc import Sequence
from typing import NamedTuple, Self

from hvdprof.ingest.text.file_forms import FileForm, file_form
from hvdprof.ingest.text.hydra_prefixes import HydraPieces
from hvdprof.ingest.text.prefix_forms import LINES
from hvdprof.ingest.text.text_lines import LONGEST
from hvdprof.rundir.failures.log_prefixes import TAG, without_colours
from hvdprof.rundir.json_codec import parse_json

_RFC3339 = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?:Z|([+-])(\d\d):?(\d\d))$"
)


class PrintedLine(NamedTuple):
    """One line as its process printed it; the rest is what its log prefixes said.

    ``text`` may hold tags of launchers inside only where a reader asked for them; ``rank`` is that
    of the innermost prefix with a rank, ``host`` a host, pod or container, and empty where no
    prefix names one, ``stamp`` a time in RFC 3339.
    """

    number: int
    text: str
    rank: int | None = None
    host: str = ""
    stamp: str = ""

    @property
    def time_ns(self) -> int | None:
        """Nanoseconds since the epoch by ``stamp``; None where there is none."""
        found = _RFC3339.match(self.stamp)
        if found is None:
            return None
        fraction, sign, hours, minutes = found[7] or "", found[8], found[9], found[10]
        try:
            second = calendar.timegm(
                time.strptime(" ".join(found.groups()[:6]), "%Y %m %d %H %M %S")
            )
        except ValueError:
            return None
        if sign:
            offset = int(hours) * 3600 + int(minutes) * 60
            second -= offset if sign == "+" else -offset
        return second * 1_000_000_000 + int(fraction.ljust(9, "0"))

    def without_inner_tags(self) -> "PrintedLine":
        """The line without the tags that launchers wrote into it; the first may give the rank."""
        if "<std" not in self.text:
            return self
        first = TAG.search(self.text)
        if first is None:
            return self
        rank = int(first["rank"]) if self.rank is None else self.rank
        return self._replace(text=TAG.sub("", self.text), rank=rank)


class LogLines:
    """Takes the log prefixes off the lines of one file, in order.

    Forms that one line shows are taken off wherever they are, in any order, several times over.
    Those that could be content are taken off where the first lines of the file show them.

    Args:
        layers: What the file has, the outermost first.
        hydra: Puts lines together where Hydra tagged the pieces of them.
        inner: What the file has behind the tags of Hydra.
    """

    def __init__(
        self,
        layers: Sequence[FileForm] = (),
        hydra: HydraPieces | None = None,
        inner: Sequence[FileForm] = (),
    ) -> None:
        self._layers, self._inner = tuple(layers), tuple(inner)
        self._hydra = hydra
        self._begun: dict[str, str] = {}
        self._last = 0
        self.is_plain = not layers and hydra is None

    @classmethod
    def of_file(cls, lines: Sequence[str]) -> Self:
        """What reads a file that begins with some lines, without colours."""
        layers, plain = _layers_of(
            [peeled(Peeled(line)).text if _MAY_BEGIN(line) else line for line in lines]
        )
        hydra = HydraPieces.of_file(plain)
        if hydra is None:
            return cls(layers)
        whole = [peeled(Peeled(hydra.take(line)[1])).text for line in plain]
        return cls(layers, HydraPieces.of_file(plain), _layers_of(whole)[0])

    @property
    def joins_lines(self) -> bool:
        """Whether lines are put together from several: no line may be left out then."""
        return self._hydra is not None or bool(self._begun)

    def take(self, number: int, raw: str) -> PrintedLine | None:
        """The next line without its prefixes; None where the next line continues it.

        Tags inside the line are kept.

        Args:
            number: Its number in the file.
            raw: Its text, without colours.
        """
        self._last = number
        if self.is_plain and not may_have_prefix(raw):
            return PrintedLine(number, raw)
        said = peeled(Peeled(raw))
        if self.is_plain and not said.partial:
            return PrintedLine(number, said.text, said.rank, said.host, said.stamp)
        for layer in self._layers:
            said = peeled_of(said, layer)
        if said.partial or self._begun:
            self.is_plain = False
            text = self._begun.pop(said.host, "") + said.text
            if said.partial:
                self._begun[said.host] = text[:LONGEST]
                return None
            said = said._replace(text=text)
        if self._hydra is not None:
            rank, text = self._hydra.take(said.text)
            said = said._replace(text=text, rank=said.rank if rank is None else rank)
            said = peeled(said)
            for layer in self._inner:
                said = peeled_of(said, layer)
        return PrintedLine(number, said.text, said.rank, said.host, said.stamp)

    def rest(self) -> list[PrintedLine]:
        """Lines whose ends the file lacks."""
        begun = [PrintedLine(self._last, text, host=host) for host, text in self._begun.items()]
        pieces = self._hydra.rest() if self._hydra else ()
        return begun + [PrintedLine(self._last, text, rank) for rank, text in pieces]


def _layers_of(lines: Sequence[str]) -> tuple[list[FileForm], list[str]]:
    """The forms that lines have in common, the outermost first, and the lines without them."""
    layers: list[FileForm] = []
    plain = list(lines)
    while len(layers) < MOST_FORMS:
        found = file_form(plain)
        if found is None:
            break
        layers.append(found)
        plain = [peeled_of(Peeled(line), found).text for line in plain]
    return layers, plain


MOST_FORMS = 8
JSON_TEXTS = ("log", "MESSAGE", "textPayload")
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
    if not any(f'"{name}"' in text for name in JSON_TEXTS):
        return None
    try:
        record = parse_json(text)
    except ValueError:
        return None
    if not isinstance(record, dict):
        return None
    name = next((name for name in JSON_TEXTS if isinstance(record.get(name), str)), None)
    if name is None:
        return None
    stamps = (record[key] for key in _JSON_STAMPS if isinstance(record.get(key), str))
    said = without_colours(record[name])
    return said.rstrip("\r\n"), next(stamps, ""), name == "log" and not said.endswith("\n")
