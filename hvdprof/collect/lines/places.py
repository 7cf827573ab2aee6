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

_DATA = "torch/utils/data/"
_STAGES = {
    f"{_DATA}_utils/fetch.py fetch": FETCH,
    f"{_DATA}_utils/pin_memory.py pin_memory": PIN,
    f"{_DATA}_utils/worker.py _worker_loop": WAIT,
    f"{_DATA}dataloader.py _get_data": WAIT,
    "torch/multiprocessing/reductions.py rebuild_storage_fd": RECEIVE,
    "torch/multiprocessing/reductions.py rebuild_storage_filename": RECEIVE,
    "torch/multiprocessing/reductions.py rebuild_tensor": RECEIVE,
}
"""Stages of torch's DataLoader by end of the file and function; the innermost one counts."""

_NAMES = frozenset(name.rpartition(" ")[2] for name in _STAGES)


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
        while frame is not None and not stage:
            code = frame.f_code
            known = self._codes.get(id(code))
            _, owner, stage = self._see(frame) if known is None else known
            if owner is Owner.BEGIN:
                break
            if own is None and owner is Owner.USER:
                own = frame
            elif own is None and leaf is None and owner is Owner.LIBRARY:
                leaf = code
            if stage == FETCH and frame.f_lineno == _last_line(code):
                # It ends with `return self.collate_fn(data)`.
                stage = COLLATE
            frame = frame.f_back
        while own is None and frame is not None:
            # A stage without code of the user's in it: the loop's line that asks for the batch.
            known = self._codes.get(id(frame.f_code))
            owner = (self._see(frame) if known is None else known)[1]
            if owner is Owner.BEGIN:
                break
            own = frame if owner is Owner.USER else None
            frame = frame.f_back
        return self._number(own, leaf, stage)

    def _see(self, frame: FrameType) -> tuple[CodeType, Owner, str]:
        if len(self._codes) >= MOST_CODES:
            self._codes.clear()
            self._numbers.clear()
        code = frame.f_code
        owner = self._user_code.owner(code, frame.f_globals)
        seen = self._codes[id(code)] = code, owner, _stage_of(code)
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


def _stage_of(code: CodeType) -> str:
    """The stage of a DataLoader that a function is; empty for nearly all."""
    if code.co_name not in _NAMES:
        return ""
    file = code.co_filename
    return next(
        (stage for name, stage in _STAGES.items() if f"{file} {code.co_name}".endswith(name)), ""
    )


def _last_line(code: CodeType) -> int:
    return max(line for _, _, line in code.co_lines() if line)
