"""Lines without their log prefixes, with the rank, host and time that the prefixes carry."""

import calendar
import json
import re
import time
from collections.abc import Sequence
from typing import NamedTuple, Self

from hvdprof.ingest.text.file_forms import FileForm, file_form
from hvdprof.ingest.text.hydra_prefixes import HydraPieces
from hvdprof.ingest.text.prefix_forms import ANY_LINE
from hvdprof.ingest.text.text_lines import LONGEST
from hvdprof.rundir.log_prefixes import TAG, without_colours

_MOST_FORMS = 8
_JSON_TEXTS = ("log", "MESSAGE", "textPayload")
"""The text of a line in docker's json-file driver, ``journalctl -o json`` and Google's logs."""

_JSON_STAMPS = ("time", "timestamp")
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

    @classmethod
    def of_file(cls, lines: Sequence[str]) -> Self:
        """What reads a file that begins with some lines, without colours."""
        plain = [_peeled(PrintedLine(0, line))[0].text for line in lines]
        layers, plain = _layers_of(plain)
        hydra = HydraPieces.of_file(plain)
        if hydra is None:
            return cls(layers)
        whole = [_peeled(PrintedLine(0, hydra.take(line)[1]))[0].text for line in plain]
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
        line, partial = _peeled(PrintedLine(number, raw))
        line, more = _without_all(line, self._layers)
        partial = partial or more
        if partial or self._begun:
            text = self._begun.pop(line.host, "") + line.text
            if partial:
                self._begun[line.host] = text[:LONGEST]
                return None
            line = line._replace(text=text)
        if self._hydra is None:
            return line
        rank, text = self._hydra.take(line.text)
        line = line._replace(text=text, rank=line.rank if rank is None else rank)
        return _without_all(_peeled(line)[0], self._inner)[0]

    def rest(self) -> list[PrintedLine]:
        """Lines whose ends the file lacks."""
        begun = [PrintedLine(self._last, text, host=host) for host, text in self._begun.items()]
        pieces = self._hydra.rest() if self._hydra else ()
        return begun + [PrintedLine(self._last, text, rank) for rank, text in pieces]


def _peeled(line: PrintedLine) -> tuple[PrintedLine, bool]:
    """The line without the prefixes that it shows itself, and whether the next continues it."""
    number, text, rank, host, stamp = line
    partial = False
    for _ in range(_MOST_FORMS):
        if text.startswith("{") and (record := _record(text)) is not None:
            text, stamp, partial = record[0], record[1] or stamp, record[2]
            continue
        found = ANY_LINE.match(text)
        if found is None or not found[0]:
            break
        said = _said(found)
        rank = int(said["rank"]) if said.get("rank") else rank
        host, stamp = said.get("host") or host, said.get("stamp") or stamp
        partial = said.get("partial", "F") == "P"
        text = text[found.end() :]
    return PrintedLine(number, text, rank, host, stamp), partial


def _said(found: re.Match[str]) -> dict[str, str]:
    groups = found.groupdict()
    return {name.partition("_")[0]: text for name, text in groups.items() if text is not None}


def _layers_of(lines: Sequence[str]) -> tuple[list[FileForm], list[str]]:
    """The forms that lines have in common, the outermost first, and the lines without them."""
    layers: list[FileForm] = []
    plain = list(lines)
    while len(layers) < _MOST_FORMS:
        found = file_form(plain)
        if found is None:
            break
        layers.append(found)
        plain = [_peeled(_without(PrintedLine(0, line), found))[0].text for line in plain]
    return layers, plain


def _without_all(line: PrintedLine, layers: Sequence[FileForm]) -> tuple[PrintedLine, bool]:
    partial = False
    for layer in layers:
        line, more = _peeled(_without(line, layer))
        partial = partial or more
    return line, partial


def _without(line: PrintedLine, layer: FileForm) -> PrintedLine:
    found = layer.match(line.text)
    if found is None:
        return line
    said = found.groupdict()
    return line._replace(
        text=line.text[found.end() :],
        rank=int(said["rank"]) if said.get("rank") else line.rank,
        host=said.get("host") or line.host,
    )


def _record(text: str) -> tuple[str, str, bool] | None:
    """Text and stamp of a line that is a JSON object, and whether docker cut it after 16 KiB."""
    if not any(f'"{name}"' in text for name in _JSON_TEXTS):
        return None
    try:
        record = json.loads(text)
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
