"""Places of frames: the innermost line of the user's, and the function of a library in it."""

import functools
import gc
import json
import multiprocessing.process
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from torch.utils.data import DataLoader, Dataset, default_collate

from hvdprof.collect.auto.startup.hvdprof_import_hook import watch_workers
from hvdprof.collect.lines import sampler as module
from hvdprof.collect.lines import worker_lines
from hvdprof.collect.lines.sampler import Places, user_line
from hvdprof.collect.lines.user_code import UserCode
from hvdprof.rundir.recording.line_format import OTHER_PLACE


def caught(places: Places, call: Any) -> list[int]:
    """The places of the frames from which a call calls its argument."""
    found = []
    call(lambda *_: found.append(places.at(sys._getframe(1))))
    return found


def here() -> FrameType:
    return sys._getframe(1)


def test_the_users_line_is_named_with_the_library_function_in_it() -> None:
    places = Places(UserCode())

    (number,) = caught(places, lambda seen: json.loads("{}", object_hook=seen))

    file, line, function, leaf, stage = places.names[number]
    assert file == __file__
    assert function.endswith("<lambda>")
    assert line == caught.__code__.co_firstlineno + 14
    assert leaf == "json/decoder.py JSONDecoder.raw_decode"
    assert stage == ""


def test_a_line_without_a_library_has_no_leaf() -> None:
    places = Places(UserCode())

    number = places.at(here())

    assert places.names[number][1:] == (
        number_of_line("number = places.at(here())"),
        test_a_line_without_a_library_has_no_leaf.__qualname__,
        "",
        "",
    )


def number_of_line(text: str) -> int:
    with open(__file__, encoding="utf-8") as file:  # noqa: PTH123
        return next(number for number, line in enumerate(file, 1) if line.strip() == text)


def test_without_a_line_of_the_users_the_innermost_function_is_named() -> None:
    places = Places(UserCode())
    frame = here()
    code = functools.partial(compile, "frame = here()", "/x/site-packages/jobs/run.py", "exec")
    names: dict[str, Any] = {"here": here}
    exec(code(), names)
    inner: FrameType = names["frame"]

    class Alone:
        """A frame that nothing has called."""

        f_code, f_globals, f_lineno, f_back = inner.f_code, inner.f_globals, 1, None

    number = places.at(Alone())

    assert places.names[number] == ("", 0, "", "jobs/run.py <module>", "")
    assert places.at(frame) != number


def test_the_lines_from_which_a_worker_was_forked_are_not_its_own() -> None:
    places = Places(UserCode())
    found: list[int] = []

    class Worker(multiprocessing.process.BaseProcess):
        def run(self) -> None:
            json.loads("{}", object_hook=lambda _: found.append(places.at(sys._getframe(1))))

        def _bootstrap(self) -> None:
            exec(
                compile(
                    "import json\n"
                    "def _bootstrap(seen):\n"
                    "    json.loads('{}', object_hook=seen)\n"
                    "_bootstrap(seen)",
                    "/usr/lib/python3/multiprocessing/process.py",
                    "exec",
                ),
                {"seen": lambda _: found.append(places.at(sys._getframe(1)))},
            )

    Worker()._bootstrap()

    assert [places.names[number][0] for number in found] == [""]
    assert places.names[found[0]][3] == "json/decoder.py JSONDecoder.raw_decode"


def test_a_worker_that_has_not_begun_is_on_no_line_of_its_parent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places, found = Places(UserCode()), []
    process = multiprocessing.process
    monkeypatch.setattr(process.BaseProcess, "_bootstrap", lambda _: None)
    watch_workers(process)
    monkeypatch.setattr(
        worker_lines, "start_worker", lambda: found.append(places.at(sys._getframe(1)))
    )
    monkeypatch.setattr(worker_lines, "stop_worker", lambda: None)

    process.BaseProcess._bootstrap(None)  # type: ignore[attr-defined]

    assert [places.names[number] for number in found] == [("", 0, "", "", "")]


def test_code_that_vanishes_is_not_mistaken_for_other_code() -> None:
    places = Places(UserCode())
    found = set()
    for number in range(200):
        names: dict[str, Any] = {"here": here}
        text = f"def f{number}():\n    return here()\nframe = f{number}()"
        exec(compile(text, f"/x/{number}.py", "exec"), names)
        found.add(places.names[places.at(names["frame"])])
        del names
        gc.collect(0)

    assert found == {(f"/x/{number}.py", 2, f"f{number}", "", "") for number in range(200)}


def test_what_is_held_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_CODES", 8)
    monkeypatch.setattr(module, "MOST_PLACES", 20)
    places = Places(UserCode())
    numbers = []
    for number in range(40):
        names: dict[str, Any] = {"here": here}
        exec(compile("frame = here()", f"/x/{number}.py", "exec"), names)
        numbers.append(places.at(names["frame"]))

    assert len(places.names) == 20
    assert numbers[:19] == list(range(1, 20))
    assert set(numbers[19:]) == {OTHER_PLACE}
    assert len(places._codes) <= 8


def test_the_line_of_the_user_that_called() -> None:
    line = user_line(here(), UserCode())

    assert line == (__file__, number_of_line("line = user_line(here(), UserCode())"))
    assert user_line(None, UserCode()) == ("", 0)


class Sampled(Dataset[Any]):
    """Samples that look where they are made."""

    def __init__(self, look: Callable[[FrameType], object]) -> None:
        self.look = look

    def __len__(self) -> int:
        return 2

    def __getitem__(self, index: int) -> int:
        self.look(here())
        return index


def test_the_stage_of_a_data_loader_is_known_by_its_frames() -> None:
    places = Places(UserCode())
    stages: list[tuple[str, str]] = []

    def look(frame: FrameType) -> None:
        _, _, function, _, stage = places.names[places.at(frame)]
        stages.append((function.rpartition(".")[2], stage))

    def put_together(samples: list[int]) -> list[int]:
        look(here())
        return default_collate(samples)

    for _ in DataLoader(Sampled(look), batch_size=2, collate_fn=put_together):
        look(here())

    loop = test_the_stage_of_a_data_loader_is_known_by_its_frames.__name__
    assert stages == [
        *[("__getitem__", "fetch")] * 2,
        ("put_together", "collate"),
        (loop, ""),
    ]


def test_a_wait_for_workers_is_a_stage() -> None:
    places = Places(UserCode())
    names: dict[str, Any] = {"here": here, "__name__": "torch.utils.data.dataloader"}
    file = "/x/site-packages/torch/utils/data/dataloader.py"
    text = "class _MultiProcessingDataLoaderIter:\n    def _get_data(self):\n        return here()"
    exec(compile(text, file, "exec"), names)

    number = places.at(names["_MultiProcessingDataLoaderIter"]()._get_data())

    assert places.names[number][4] == "wait"
