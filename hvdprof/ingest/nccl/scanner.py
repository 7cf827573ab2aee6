"""Physical lines of a log to messages: glued, interrupted and wrapped lines are repaired."""

import re
from collections import deque
from dataclasses import dataclass, replace

from hvdprof.ingest.nccl.line_prefixes import HEAD, Head, find_head, find_heads, read_head
from hvdprof.ingest.nccl.line_reader import Key, LineKinds
from hvdprof.ingest.nccl.logbook import Logbook, Message
from hvdprof.ingest.nccl.repeated_calls import RepeatedCalls
from hvdprof.ingest.nccl.subjects import understand
from hvdprof.ingest.nccl.trouble_lines import read_foreign
from hvdprof.ingest.text.line_filter import EVERY_LINE
from hvdprof.ingest.text.log_lines import PrintedLine
from hvdprof.ingest.text.printed_lines import Part, UntouchedLines
from hvdprof.rundir.failures.log_prefixes import TAG_AND_BLANK

_MOST_HEADS = 8192
_TORCH = re.compile(r"(?:\[rank\d{1,7}\]:)?\[[EWI][^\]]{0,60}ProcessGroupNCCL\.cpp:\d+\]")
_TORN = re.compile(
    r"(?<!\w)\w[\w.-]{0,253}:\d{1,9}:\d{1,9}"
    r"(?: (?:\[\d{1,4}\](?: (?:NCCL(?: (?:INFO|INF|IN|I)?)?|NCC|NC|N)?)?)?)?"
)
_INFO = "NCCL INFO "
_WANTED = r"CCL|ccl|:[0-9]+ (?:\[-?[0-9]+\] )?(?:\S+:[0-9]+ )?(?:INFO|WARN) | died from signal "
"""Finds lines of NCCL behind any log prefix, and what PyTorch and launchers say of it."""

_LONGEST = 4096
"""NCCL's own buffer ends a line after 1024 bytes; prefixes and a glued line have room."""

_MOST_FRAGMENTS = 32
_LONGEST_GAP = 2000
_MOST_TRIES = 50_000
"""Fragments tried against lines without success; keeps a log that is all damage from being slow."""


@dataclass(frozen=True, slots=True)
class _Fragment:
    """The beginning of a line that another writer cut.

    The last ``loose`` characters may belong to the host name of the one who cut it.
    """

    text: str
    line: int
    loose: int = 0
    counted: Key | None = None
    cut: bool = True
    pieces: int = 1


class Scanner:
    """Reads the lines of one file after the other into a logbook.

    A prefix is parsed once: most lines repeat that of an earlier line, so the text before
    `NCCL INFO` is looked up before any pattern is tried.
    """

    def __init__(self, log: Logbook, kinds: LineKinds) -> None:
        self.num_rejoined = 0
        self.num_cut = 0
        self._log = log
        self._kinds = kinds
        self._heads: dict[str, tuple[int, Head]] = {}
        self._fragments: deque[_Fragment] = deque(maxlen=_MOST_FRAGMENTS)
        self._wrapped: _Fragment | None = None
        self._num_tries = 0
        self._file = ""
        self._line = 0
        self._rank: int | None = None
        self._host = ""
        self._has_complete = False
        self._repeated = RepeatedCalls(log, kinds, self._heads)

    def wanted(self) -> str:
        """A pattern of the lines to be read next; every line where one waits for its rest."""
        return EVERY_LINE if self._wrapped or self._fragments else _WANTED

    def open(self, file: str) -> None:
        """Begin a file."""
        self._file = file
        self._line = 0
        self._num_tries = 0
        self._has_complete = False

    def close(self) -> None:
        """End a file: lines that waited for their rest stay incomplete."""
        self._unwrap("")
        self._fragments.clear()

    def read_ahead(self, lines: Part, place: int) -> int:
        """Read repeated calls from a place on, as ``Ahead``; none where a line waits for more."""
        if self._wrapped or self._fragments or not isinstance(lines, UntouchedLines):
            return place
        behind = self._repeated.read(lines, place, self._file)
        self._line = lines.numbers[behind - 1] if behind > place else self._line
        return behind

    def read(self, line: PrintedLine) -> None:
        """Read the next line, with the tags of launchers inside it."""
        raw = line.text
        if len(raw) > _LONGEST:
            # A line of megabytes comes in pieces with one number.
            self.num_cut += line.number != self._line or not self.num_cut
            raw = raw[:_LONGEST]
        self._line, self._rank, self._host = line.number, line.rank, line.host
        if self._fragments:
            self._forget()
        if (self._wrapped or self._fragments) and not self._begins(raw) and self._rejoin(raw):
            return
        if self._wrapped:
            self._unwrap("")
        found = raw.find(_INFO)
        if found > 0:
            head = self._heads.get(raw[:found])
            if head is not None and not _suspicious(raw, found):
                self._say_whole(head, raw, found + len(_INFO))
                return
        self._read_any(raw)

    def _begins(self, raw: str) -> bool:
        """Whether a prefix is in a line, also without its host where the file has no other."""
        return (HEAD.search(raw) if self._has_complete else find_head(raw)) is not None

    def _read_any(self, raw: str) -> None:
        """A line with a new prefix, several prefixes, damage, or none of NCCL's at all."""
        if "CCL" not in raw and " INFO " not in raw and " WARN " not in raw:
            self._read_foreign(raw)
            return
        torch = _TORCH.search(raw)
        if torch is not None:
            self._read_foreign(raw[torch.start() :])
            raw = raw[: torch.start()]
        # Where one prefix is complete, what looks shortened is the rest of a torn one.
        heads = list(HEAD.finditer(raw)) if self._has_complete else find_heads(raw)
        if heads:
            self._read_parts(raw, heads, torch is not None)
        else:
            self._read_torn(raw)

    def _read_parts(self, raw: str, heads: list[re.Match[str]], cut: bool) -> None:
        for number, head in enumerate(heads):
            last = number == len(heads) - 1
            end = len(raw) if last else heads[number + 1].start()
            loose = 0 if last else len(heads[number + 1]["host"] or "")
            text = TAG_AND_BLANK.split(raw[head.end() : end], maxsplit=1)[0]
            whole = raw[head.start() : end + loose]
            part = _Fragment(whole, self._line, loose, cut=cut or not last)
            if last and _is_wrapped(text):
                self._wrapped = part
            elif not text:
                self._fragments.append(part)
            else:
                self._say(self._head(head), text, part)

    def _read_torn(self, raw: str) -> None:
        """A prefix that breaks off, and what was written over its rest."""
        torn = _TORN.search(raw)
        if torn is None:
            self._read_foreign(raw)
            return
        rest = raw[torn.end() :]
        if not rest or not self._rejoin(rest):
            self._read_foreign(rest)
        self._fragments.append(_Fragment(torn[0], self._line))

    def _head(self, found: re.Match[str]) -> tuple[int, Head]:
        """The process and prefix; remembered by the text up to the level."""
        head = read_head(found, self._rank, self._host)
        parsed = self._log.process(head.host, head.pid, head.tag_rank), head
        if head.is_shortened:
            return parsed
        self._has_complete = True
        if len(self._heads) >= _MOST_HEADS:
            self._heads.clear()
        text, end = found.string, found.end() - len(_INFO)
        if head.level == "INFO" and text.startswith(_INFO, end):
            self._heads[text[:end]] = parsed
        return parsed

    def _say(self, prefix: tuple[int, Head], text: str, part: _Fragment) -> None:
        said = self._message(prefix, text, part)
        understood = understand(self._log, said)
        counted = self._kinds.count(said, understood)
        if not understood:
            self._fragments.append(replace(part, counted=counted))

    def _say_whole(self, prefix: tuple[int, Head], raw: str, start: int) -> None:
        """As ``_say``, for a whole line; most lines are read here."""
        process, head = prefix
        said = Message(
            raw[start:], process, head.tid, head.level, head.where, self._file, self._line, raw
        )
        understood = understand(self._log, said)
        counted = self._kinds.count(said, understood)
        if not understood:
            self._fragments.append(_Fragment(raw, self._line, counted=counted, cut=False))

    def _message(self, prefix: tuple[int, Head], text: str, part: _Fragment) -> Message:
        process, head = prefix
        return Message(
            text, process, head.tid, head.level, head.where, self._file, part.line, part.text
        )

    def _rejoin(self, raw: str) -> bool:
        """Whether a line without a prefix is the rest of an earlier one; reads it if it is."""
        rest = TAG_AND_BLANK.sub("", raw, count=1)
        if self._wrapped is not None:
            self._unwrap(rest)
            return True
        if not rest or _TORCH.search(rest):
            return False
        for fragment in reversed(self._fragments):
            if self._line - fragment.line > _LONGEST_GAP or self._num_tries > _MOST_TRIES:
                break
            if self._joins(fragment, rest):
                self._fragments.remove(fragment)
                self.num_rejoined += 1
                return True
            self._num_tries += 1
        self._lengthen(raw)
        return False

    def _lengthen(self, raw: str) -> None:
        """A narrow terminal breaks a line in more than two: the next piece may be its rest."""
        last = self._fragments[-1] if self._fragments else None
        if last is None or last.cut or len(last.text) >= _LONGEST:
            return
        if self._line == last.line + last.pieces:
            self._fragments[-1] = replace(last, text=last.text + raw, pieces=last.pieces + 1)

    def _forget(self) -> None:
        """Drop what waits no longer: a line that was not cut can continue only in the next line."""
        last = self._fragments[-1]
        if not last.cut and self._line - last.line > last.pieces:
            self._fragments.pop()
        elif self._line - last.line > _LONGEST_GAP or self._num_tries > _MOST_TRIES:
            self._fragments.clear()

    def _joins(self, fragment: _Fragment, rest: str) -> bool:
        whole = len(fragment.text)
        for end in range(whole - fragment.loose, whole + 1):
            for glue in ("", " "):
                text = fragment.text[:end] + glue + rest
                joined = _Fragment(text, fragment.line, 0, fragment.counted)
                if self._makes_sense(joined):
                    return True
        return False

    def _makes_sense(self, joined: _Fragment) -> bool:
        found = find_head(joined.text)
        if found is None:
            return False
        said = self._message(self._head(found), joined.text[found.end() :], joined)
        if not said.word or not understand(self._log, said):
            return False
        self._kinds.correct(joined.counted, said)
        return True

    def _unwrap(self, rest: str) -> None:
        """Read a failed work request, whose line some terminals break, with its second half."""
        wrapped, self._wrapped = self._wrapped, None
        found = None if wrapped is None else find_head(wrapped.text)
        if wrapped is not None and found is not None:
            whole = _Fragment(f"{wrapped.text} {rest}".rstrip(), wrapped.line)
            self._say(self._head(found), whole.text[found.end() :], whole)

    def _read_foreign(self, raw: str) -> None:
        if "CCL" in raw or "ccl" in raw or " died from signal " in raw:
            read_foreign(self._log, raw, self._rank, (self._file, self._line))


def _suspicious(raw: str, found: int) -> bool:
    """Whether the line needs the slow path: a second prefix, PyTorch's or a tag is inside."""
    return raw.find("CCL", found + len(_INFO)) >= 0 or raw.find("<std", found) >= 0


def _is_wrapped(text: str) -> bool:
    return "Got completion" in text and "vendor" not in text
