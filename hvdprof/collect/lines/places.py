"""Where a thread is, as a number that is cheap to count.

Tested in ``tests/collect/lines/test_places.py``.
"""

from types import CodeType, FrameType

from hvdprof.collect.lines.user_code import Owner, UserCode, shown_file, shown_function
from hvdprof.rundir.recording.line_format import COLLATE, FETCH, OTHER_PLACE, PIN, RECEIVE, WAIT

MOST_CODES, MOST_PLACES = 8192, 8192
"""What is kept; a script may execute new code at every step."""

PlaceName = tuple[str, int, str, str, str]
"""File, line, function, the innermost function where that is not the user's, stage of input."""

_STAGES = {
    "torch/utils/data/_utils/fetch.py _MapDatasetFetcher.fetch": FETCH,
    "torch/utils/data/_utils/fetch.py _IterableDatasetFetcher.fetch": FETCH,
    "torch/utils/data/_utils/pin_memory.py pin_memory": PIN,
    "torch/utils/data/_utils/worker.py _worker_loop": WAIT,
    "torch/utils/data/dataloader.py _MultiProcessingDataLoaderIter._get_data": WAIT,
    "torch/multiprocessing/reductions.py rebuild_storage_fd": RECEIVE,
    "torch/multiprocessing/reductions.py rebuild_storage_filename": RECEIVE,
    "torch/multiprocessing/reductions.py rebuild_tensor": RECEIVE,
}
"""Stages of torch's DataLoader by function; the innermost one counts."""


class Places:
    """Numbers of places; each code object that is counted is kept, so that its id stays its own.

    Args:
        user_code: Says whose code it is.
    """

    def __init__(self, user_code: UserCode) -> None:
        self._user_code = user_code
        self._codes: dict[int, tuple[CodeType, Owner, str]] = {}
        self._numbers: dict[
            tuple[int, int, int, str], tuple[int, CodeType | None, CodeType | None]
        ] = {}
        self._by_name: dict[PlaceName, int] = {}
        self.names: list[PlaceName] = [("", 0, "", "other", "")]

    def at(self, frame: FrameType | None) -> int:
        """The number of the place of a thread: ``names`` has what it is.

        It is the innermost line of the user's, with the innermost function of a library that it
        has called; where no line is the user's, that function alone. The stage is that of the
        innermost frame of a DataLoader, which may have called the user's line.

        Args:
            frame: The innermost frame of the thread.
        """
        leaf: CodeType | None = None
        own: FrameType | None = None
        stage = ""
        while frame is not None and not (own and stage):
            code = frame.f_code
            known = self._codes.get(id(code))
            _, owner, here = self._see(frame) if known is None else known
            if owner is Owner.BEGIN:
                break
            if own is None and owner is Owner.USER:
                own = frame
            elif own is None and leaf is None and owner is Owner.LIBRARY:
                leaf = code
            if here and not stage:
                # It ends with `return self.collate_fn(data)`.
                last = max(line for _, _, line in code.co_lines() if line)
                stage = COLLATE if here == FETCH and frame.f_lineno == last else here
            frame = frame.f_back
        return self._number(own, leaf, stage)

    def _see(self, frame: FrameType) -> tuple[CodeType, Owner, str]:
        if len(self._codes) >= MOST_CODES:
            self._codes.clear()
            self._numbers.clear()
        code = frame.f_code
        owner = self._user_code.owner(code, frame.f_globals)
        stage = _STAGES.get(shown_function(code), "") if owner is Owner.LIBRARY else ""
        seen = self._codes[id(code)] = code, owner, stage
        return seen

    def _number(self, frame: FrameType | None, leaf: CodeType | None, stage: str) -> int:
        code = None if frame is None else frame.f_code
        # The line itself would have to be looked for in the table of the code.
        key = id(code), -1 if frame is None else frame.f_lasti, id(leaf), stage
        known = self._numbers.get(key)
        if known is None:
            if len(self._numbers) >= MOST_PLACES:
                self._numbers.clear()
            line = 0 if frame is None else frame.f_lineno or frame.f_code.co_firstlineno
            known = self._numbers[key] = self._named(code, line, leaf, stage), code, leaf
        return known[0]

    def _named(self, code: CodeType | None, line: int, leaf: CodeType | None, stage: str) -> int:
        inner = "" if leaf is None else shown_function(leaf)
        name = ("", 0, "", inner, stage)
        if code is not None:
            name = (shown_file(code.co_filename), line, code.co_qualname, inner, stage)
        number = self._by_name.get(name)
        if number is None:
            if len(self.names) >= MOST_PLACES:
                return OTHER_PLACE
            number = self._by_name[name] = len(self.names)
            self.names.append(name)
        return number


def user_line(frame: FrameType | None, user_code: UserCode) -> tuple[str, int]:
    """File and number of the innermost line of the user's; empty and 0 without one.

    Args:
        frame: The innermost frame of the thread.
        user_code: Says whose code it is.
    """
    while frame is not None:
        if user_code.owner(frame.f_code, frame.f_globals) is Owner.USER:
            return shown_file(frame.f_code.co_filename), frame.f_lineno or 0
        frame = frame.f_back
    return "", 0
