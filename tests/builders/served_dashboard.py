"""A dashboard that listens, and runs of every kind for its pages to show."""

import functools
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from plotly.utils import PlotlyJSONEncoder
from waitress import wasyncore

from hvdprof.dashboards.app import create_app
from hvdprof.dashboards.bounded_server import bounded_server
from hvdprof.dashboards.run_store import RunStore
from hvdprof.dashboards.view import View
from tests.builders import nccl_log
from tests.builders.browser import (
    IS_DARK,
    WatchedPage,
    serious_violations,
    turn,
    watched_page,
)
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run
from tests.builders.run_spec import FIRST_STEP_NS
from tests.builders.timeline_text import timeline_text

_WIDE, _NARROW = 1280, 390
"""Widths of windows in pixels."""
HOSTILE_TENSOR = "allreduce.<img src=x onerror=alert(1)>"


@contextmanager
def served(runs: RunStore) -> Iterator[str]:
    """The address of a dashboard over these runs."""
    with _listening() as listening:
        server = bounded_server(create_app(runs).server, listening)
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.effective_port}"
        finally:
            server.trigger.pull_trigger(lambda: _close_connections(server))
            # A thread that has served a request wakes the server up: by a file that is closed with
            # it, and whose number another one may have then.
            server.task_dispatcher.shutdown()
            server.trigger.pull_trigger(lambda: _close(server))
            thread.join(timeout=120)
            assert not thread.is_alive()


@functools.cache
def _usual_port() -> int:
    """A port that was free when the first dashboard of this worker started."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        return free.getsockname()[1]


def _listening() -> socket.socket:
    """A socket at the same port as before: the browser has the scripts of that address."""
    try:
        return socket.create_server(("127.0.0.1", _usual_port()))
    except OSError:
        # Another dashboard of this test listens there.
        return socket.create_server(("127.0.0.1", 0))


def _close_connections(server) -> None:
    """Close all connections, in the server's thread.

    A browser that lives on holds some open. Each may have a file of what did not fit into memory.
    """
    for channel in list(server.active_channels.values()):
        channel.handle_close()


def _close(server) -> None:
    """Close the server, too, and what has connected meanwhile."""
    _close_connections(server)
    wasyncore.close_all(server._map)


def page_text(page, path: Path, **values: object) -> str:
    """Everything that a page shows of a run or file, as text."""
    runs = RunStore([path])
    return shown_text(page.layout(runs, View(page.PATH, {"run": runs.ids[0]}).changed(**values)))


def shown_text(component) -> str:
    """A component as JSON text, and after it the texts that links to terms break up."""
    # The encoder escapes all but ASCII.
    tree = json.loads(json.dumps(component, cls=PlotlyJSONEncoder))
    texts = (json.dumps(one, ensure_ascii=False) for one in (tree, *_broken_texts(tree)))
    # Between a number and its unit no line ends.
    return "\n".join(texts).replace("\N{NO-BREAK SPACE}", " ")


def _broken_texts(node) -> Iterator[str]:
    for one in node if isinstance(node, list) else node.values() if isinstance(node, dict) else ():
        yield from _broken_texts(one)
    children = node.get("children") if isinstance(node, dict) else None
    if isinstance(children, list) and any(isinstance(one, str) for one in children):
        yield _plain(children)


def _plain(node) -> str:
    """The text of a component or of several."""
    if isinstance(node, list):
        return "".join(map(_plain, node))
    if isinstance(node, dict):
        return _plain(node.get("props", {}).get("children"))
    return node if isinstance(node, str) else ""


def measured_run(folder: Path) -> Path:
    """Plain torch, and Horovod on 1 and 2 ranks with and without fp16; two launches of each.

    Rank 1 needs 3 ms more in forward; one pass is traced; a tensor has a hostile name.
    """
    tensors = {HOSTILE_TENSOR: 4000, "allreduce.fc.weight": 80_000}
    passes = []
    for repeat in (1, 2):
        wobble = 1 + 0.01 * repeat
        torch = SegmentSpec(engine="torch", parts_ms=typical_parts(10.0 * wobble))
        alone = SegmentSpec(parts_ms=typical_parts(10.2 * wobble), tensors=tensors)
        passes += [
            PassSpec(size=1, repeat=repeat, segments=[torch]),
            PassSpec(size=1, repeat=repeat, segments=[alone]),
            PassSpec(size=2, repeat=repeat, segments=[_uneven(wobble, tensors)]),
            PassSpec(
                size=2,
                repeat=repeat,
                segments=[_uneven(wobble * 0.95, tensors, compression="fp16")],
            ),
        ]
    traced = _uneven(1.0, tensors, timeline=True)
    passes.append(PassSpec(size=2, mode="trace", segments=[traced]))
    return write_run(folder, passes)


def _uneven(factor: float, tensors: dict[str, int], **values: object) -> SegmentSpec:
    rng = np.random.default_rng(7)
    forward = 5.0 * factor + rng.normal(0, 0.05, (2, 62))
    forward[1] += 3.0
    parts = {"forward": forward, "backward": 4.0, "blocked": 10.0 - forward, "optimizer": 0.5}
    loss = np.linspace(2.3, 0.4, 62)
    return SegmentSpec(parts_ms=parts, loss=loss, tensors=tensors, **values)


def empty_run(folder: Path) -> Path:
    """A run of which nothing has been measured yet."""
    return write_run(folder, [], status="running")


def standalone_timeline(folder: Path) -> Path:
    """A standalone Horovod timeline of 20 steps with a hostile tensor."""
    segment = SegmentSpec(
        parts_ms=typical_parts(10.0, 2.0), num_steps=20, tensors={HOSTILE_TENSOR: 4000}
    )
    path = folder / "timeline.json"
    path.write_text(timeline_text(segment, 2, FIRST_STEP_NS), encoding="utf-8")
    return path


def nccl_file(folder: Path) -> Path:
    """A log of NCCL on four hosts with two GPUs each."""
    nccl_log.recorded(folder, nccl_log.job(num_ranks=8))
    return folder / "nccl.log"


def check_in_browser(page, folder: Path, expected: dict[str, str]) -> None:
    """Look at a page with every kind of run: nothing complains, overflows or is run as code.

    axe-core finds no serious violation either. Checked in a wide light window and in a narrow dark
    one, of one server, which analyzes each run once, and of one browser, which reads the scripts
    once.

    Args:
        page: The page module.
        folder: Where the runs are put.
        expected: By kind of run (measured, empty, timeline, nccl), a text that must be seen.
    """
    makers = {
        "measured": measured_run,
        "empty": empty_run,
        "timeline": _in_folder(standalone_timeline),
        "nccl": _in_folder(nccl_file),
    }
    paths = {kind: makers[kind](folder / kind) for kind in expected}
    with served(RunStore(list(paths.values()))) as address, watched_page(address) as watched:
        for width, dark in ((_WIDE, False), (_NARROW, True)):
            watched.resize(width, dark=dark)
            _check_in_window(watched, f"{address}{page.PATH}", width, paths, expected)
            assert watched.page.evaluate(IS_DARK) == dark


def _check_in_window(
    watched: WatchedPage,
    address: str,
    width: int,
    paths: dict[str, Path],
    expected: dict[str, str],
) -> None:
    browser = watched.page
    browser.goto("about:blank")
    for kind, text in expected.items():
        turn(watched, f"{address}?run={paths[kind].name}")
        # A tab without data holds the reason, too, hidden until it is pointed at.
        browser.get_by_text(text).filter(visible=True).first.wait_for()
        what = (kind, width)
        assert browser.evaluate("document.documentElement.scrollWidth") <= width, what
        assert browser.locator("main img").count() == 0, what
        assert watched.complaints == [], what
        assert serious_violations(browser) == [], what
    assert watched.foreign_requests == []


def _in_folder(make: Callable[[Path], Path]) -> Callable[[Path], Path]:
    def made(folder: Path) -> Path:
        folder.mkdir()
        return make(folder)

    return made
