"""The log prefixes of Hydra, the launcher of MPICH and Intel MPI.

``mpiexec -prepend-rank`` (``-l``) writes ``[3] `` before every piece that it has read of a rank,
and before every further line in it. A piece may begin anywhere: without buffering most lines come
in several, and pieces of ranks that write at once share a line. Seen with MPICH 4.3.2:
``[0] hal[1] whole``, then ``[0] f``.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Self

from hvdprof.ingest.text.text_lines import LONGEST

_TAG = re.compile(r"\[(\d{1,5})\](?: |$)")
# The blank is Hydra's. NCCL puts the number of a device there.
_TAG_INSIDE = re.compile(r"\[(\d{1,5})\] (?!NCCL )")
# Ranks, devices and channels of NCCL look alike, but no prefix of NCCL follows them.
_TAG_BEFORE_NCCL = re.compile(r"\[(\d{1,5})\] (?=[\w.-]{1,253}:\d{1,9}:\d{1,9} )")
_TAGGED_WORDS = re.compile(r"\[(\d{1,5})\] +(?!(?:\S+:\d{1,7} )?[NR]CCL )[^ ]")
_OF_HYDRA_ITSELF = re.compile(
    r"=|\[(?:mpiexec|proxy)[@:]|YOUR APPLICATION TERMINATED WITH|This typically refers to |"
    r"Please see the FAQ page"
)
# Hydra's reports; and the tag of an empty line, of a line end that was read by itself, or of NCCL.
_ONLY_HYDRA = re.compile(
    r"=   BAD TERMINATION|\[(?:mpiexec|proxy)[@:]|\[(\d{1,5})\] (?:.*\[\1\] )?$|"
    r"\[\d{1,5}\] [\w.-]{1,253}:\d{1,9}:\d{1,9} \[\d{1,3}\] NCCL "
)
_LEAST_LINES = 3
_LEAST_SHARE = 0.9


class HydraPieces:
    """Puts the lines of ranks together from the pieces that Hydra tagged.

    Args:
        ranks: Those that print; further ones are added by the lines that they begin.
    """

    def __init__(self, ranks: Iterable[int] = ()) -> None:
        self._ranks = set(ranks)
        self._begun: dict[int, str] = {}

    @classmethod
    def of_file(cls, lines: Sequence[str]) -> Self | None:
        """The reader of a file that begins with some lines; None where Hydra did not tag them.

        Other programs write ``[1] `` first too, so a single line decides nothing: nearly all lines
        must have such a tag. And either some must be what only Hydra writes, or rank 0 must be
        among them and the numbers not those of a counter.

        Args:
            lines: The first lines of the file, without colours.
        """
        if not any(line.startswith("[") for line in lines):
            return None
        ranks: list[int] = []
        num_others = 0
        is_certain = False
        for line in lines:
            words = _TAGGED_WORDS.match(line)
            is_certain = is_certain or bool(_ONLY_HYDRA.match(line))
            if words:
                ranks.append(int(words[1]))
            elif line.strip() and not _TAG.fullmatch(line):
                num_others += _OF_HYDRA_ITSELF.match(line) is None
        if not ranks or len(ranks) < _LEAST_SHARE * (len(ranks) + num_others):
            return None
        is_doubtful = len(ranks) < _LEAST_LINES or 0 not in ranks or _counts_up(ranks)
        return cls(ranks) if is_certain or not is_doubtful else None

    def take(self, text: str) -> tuple[int | None, str]:
        """The rank that ends its line in the next line of the file, and all of its line.

        A line that Hydra did not tag, such as its reports, comes back unchanged, without a rank.

        Args:
            text: The line, without colours.
        """
        tag = _TAG.match(text)
        if tag is None:
            return None, text
        rank, begin = int(tag[1]), tag.end()
        self._ranks.add(rank)
        inside = _TAG_BEFORE_NCCL if " NCCL " in text else _TAG_INSIDE
        for inner in inside.finditer(text, begin):
            other, end = int(inner[1]), inner.start()
            # No piece is empty. After a blank, a number like `[1] ` is part of the text more often
            # than the tag of another rank.
            is_tag = end > begin and (other == rank or text[end - 1] != " ")
            if is_tag and other in self._ranks:
                self._begun[rank] = (self._begun.get(rank, "") + text[begin:end])[:LONGEST]
                rank, begin = other, inner.end()
        return rank, self._begun.pop(rank, "") + text[begin:]

    def rest(self) -> Iterator[tuple[int, str]]:
        """The ranks that did not end their last line, and what they wrote of it."""
        yield from ((rank, text) for rank, text in self._begun.items() if text.strip())


def _counts_up(numbers: Sequence[int]) -> bool:
    """Whether numbers come up one after the other, and the first never again after the last.

    Epochs do, and those of several processes nearly so. Two different numbers are no counter.
    """
    first_seen = list(dict.fromkeys(numbers))
    if len(first_seen) < 3 or first_seen != list(range(len(first_seen))):
        return False
    return 0 not in numbers[numbers.index(first_seen[-1]) :]
