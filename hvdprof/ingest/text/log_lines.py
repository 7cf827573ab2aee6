"""Lines without their log prefixes, with the rank, host and time that the prefixes carry."""

import calendar
import re
import time
from collections.abc import Sequence
from typing import NamedTuple, Self

from hvdprof.ingest.text.file_forms import FileForm, file_form
from hvdprof.ingest.text.hydra_prefixes import HydraPieces
from hvdprof.ingest.text.peeled_text import MOST_FORMS, Peeled, may_have_prefix, peeled, peeled_of
from hvdprof.ingest.text.text_lines import LONGEST
from hvdprof.rundir.log_prefixes import TAG

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
        self._is_plain = not layers and hydra is None

    @classmethod
    def of_file(cls, lines: Sequence[str]) -> Self:
        """What reads a file that begins with some lines, without colours."""
        layers, plain = _layers_of([peeled(Peeled(line)).text for line in lines])
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
        if self._is_plain and not may_have_prefix(raw):
            return PrintedLine(number, raw)
        said = peeled(Peeled(raw))
        if self._is_plain and not said.partial:
            return PrintedLine(number, said.text, said.rank, said.host, said.stamp)
        for layer in self._layers:
            said = peeled_of(said, layer)
        if said.partial or self._begun:
            self._is_plain = False
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
