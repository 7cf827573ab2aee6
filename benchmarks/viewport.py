"""What the timeline costs: views on the server, gestures in a browser, and the first page.

    python -m benchmarks.viewport 1000000 10000000
    python -m benchmarks.viewport --browser timeline.json runs/20261120-224841-quick
    python -m benchmarks.viewport --pages timeline.json runs/20261120-224841-quick

Numbers of events: synthetic passes, ranks that record five parts a step, and a Horovod timeline of
as many rows. Each view is what the server does for one request: window, rows, bins or bars,
counters, and the answer as compressed JSON; times are those of the processor.

``--browser``: files and run directories that are there (``generate_timeline`` makes a large one),
in a real Chromium, with the dashboard in a process of its own. A gesture is a turn of the wheel,
timed by the clock from the event to the first frame that shows the new window, and to the frame
with the exact answer of the server.

``--pages``: each page is asked for over HTTP, by a dashboard that has just started.
"""

import argparse
import gzip
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from benchmarks.dashboard_process import chromium, served
from hvdprof.dashboards.app import PAGES, create_app
from hvdprof.dashboards.run_store import RunStore, read_and_analyze
from hvdprof.figures.timeline.counters import executions_of
from hvdprof.figures.timeline.timeline_lanes import LaneKind, Lanes, pass_lanes
from hvdprof.figures.timeline.timeline_rows import RowChoice, timeline_rows
from hvdprof.figures.timeline.view_data import Asked, view_data
from hvdprof.model.run import Run
from hvdprof.model.tables.run_tables import EVENTS
from hvdprof.rundir.manifest import Manifest

_STEP_NS = 50_000_000
_PARTS = (("data", 0, 1), ("forward", 1, 14), ("backward", 15, 25), ("optimizer", 40, 9))
_ACTIVITIES = ("MEMCPY_IN_FUSION_BUFFER", "NCCL_ALLREDUCE", "MEMCPY_OUT_FUSION_BUFFER")
_NUM_TENSORS = 161
_NUM_VIEWS = 100
_NUM_GESTURES = 30
_PIXELS = 1_100
_MANIFEST = Manifest.of_files("synthetic")
# Frames are seen where attributes of the timeline change, which its drawing sets.
_WATCH = """() => {
    window.gestures = [];
    const tool = document.getElementById('timeline');
    document.querySelector('.timeline-lanes').addEventListener('wheel', () => {
        const before = tool.dataset.first + tool.dataset.last;
        window.gestures.push({began: performance.now(), before});
    }, {capture: true});
    new MutationObserver(() => {
        const last = window.gestures[window.gestures.length - 1];
        if (!last || last.before === tool.dataset.first + tool.dataset.last) { return; }
        const taken = performance.now() - last.began;
        last.painted = last.painted || taken;
        if (tool.dataset.exact === 'true') { last.exact = last.exact || taken; }
    }).observe(tool, {attributes: true});
}"""
_ANSWERS = """() => performance.getEntriesByType('resource')
    .filter(one => one.name.includes('/timeline-data/view'))
    .map(one => ({millis: one.responseEnd - one.requestStart, bytes: one.encodedBodySize}))"""
_IS_EXACT = "document.getElementById('timeline')?.dataset.exact === 'true'"
_IS_DONE = "window.gestures.length && window.gestures[window.gestures.length - 1].exact > 0"


def main() -> None:
    """Print p50 and p95 of views or gestures, the largest answer, and the memory."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("events", type=int, nargs="*", default=[])
    parser.add_argument("--ranks", type=int, default=16)
    parser.add_argument("--browser", type=Path, nargs="+", default=[], metavar="PATH")
    parser.add_argument("--pages", type=Path, nargs="+", default=[], metavar="PATH")
    arguments = parser.parse_args()
    for number in arguments.events:
        print_views(number, arguments.ranks)
    for path in arguments.browser:
        print_gestures(path)
    for path in arguments.pages:
        print_pages(path)


def print_views(number: int, num_ranks: int) -> None:
    """Views of a synthetic pass, with either kind of lanes."""
    run = synthetic_run(number, num_ranks)
    events = len(run.events)
    table = int(run.events.memory_usage(deep=True).sum())
    for kind in LaneKind:
        started = time.process_time()
        lanes = pass_lanes(run, "pass", kind)
        built_s = time.process_time() - started
        millis, sizes = views(lanes)
        index = lanes.spans.nbytes
        print(
            f"{events:,} events, {num_ranks} ranks, {kind}: "
            f"p50 {np.percentile(millis, 50):.0f} ms, p95 {np.percentile(millis, 95):.0f} ms, "
            f"answer at most {max(sizes) / 1000:.0f} kB, "
            f"{(table + index) / events:.0f} bytes per event ({table / events:.0f} of the table), "
            f"built in {built_s:.1f} s"
        )


def print_gestures(path: Path) -> None:
    """Turns of the wheel over a run or file in a browser, and what its server needs for them."""
    with tempfile.TemporaryDirectory() as cache, served(path, Path(cache)) as server:
        first_s, gestures, views = gestures_of(f"{server.address}/timeline")
        peak_gb, own_gb = server.peak_gb, server.now_gb
    print(f"{path.name}: first view after {first_s:.2f} s")
    for name in ("painted", "exact"):
        millis = [one[name] for one in gestures]
        print(
            f"  {name}: p50 {np.percentile(millis, 50):.0f} ms, "
            f"p95 {np.percentile(millis, 95):.0f} ms of {len(millis)} gestures"
        )
    millis = [one["millis"] for one in views]
    print(
        f"  answers of the server: p50 {np.percentile(millis, 50):.0f} ms, "
        f"p95 {np.percentile(millis, 95):.0f} ms, "
        f"at most {max(one['bytes'] for one in views) / 1000:.0f} kB"
    )
    print(f"  memory of the server: peak {peak_gb:.2f} GB, {own_gb:.2f} GB of its own at the end")


def gestures_of(address: str) -> tuple[float, list[dict[str, float]], list[dict[str, float]]]:
    """Seconds to the first view; milliseconds of each gesture; those and bytes of each answer.

    Raises:
        FileNotFoundError: There is no Chromium on this machine.
    """
    rng = np.random.default_rng(5)
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 860})
        started = time.monotonic()
        page.goto(address)
        while not page.evaluate(_IS_EXACT):
            page.wait_for_timeout(10)
        first_s = time.monotonic() - started
        page.evaluate(_WATCH)
        box = page.locator(".timeline-lanes").bounding_box()
        assert box is not None
        for _ in range(_NUM_GESTURES):
            x = box["x"] + box["width"] * rng.uniform(0.3, 0.95)
            page.mouse.move(x, box["y"] + 10)
            page.mouse.wheel(0, -240 if rng.uniform() < 0.7 else 200)
            deadline = time.monotonic() + 20
            while not page.evaluate(_IS_DONE) and time.monotonic() < deadline:
                page.wait_for_timeout(5)
            # A hand pauses, and what follows a gesture (the address) is not part of the next one.
            page.wait_for_timeout(300)
        gestures = [one for one in page.evaluate("window.gestures") if one.get("exact")]
        return first_s, gestures, page.evaluate(_ANSWERS)


def print_pages(path: Path) -> None:
    """Each page of a file or run directory that has been ingested, first of all Overview."""
    events = len(read_and_analyze(path).run.events)
    runs = RunStore([path])
    client = create_app(runs).server.test_client()
    for page in PAGES:
        started = time.process_time()
        answer = client.post("/_dash-update-component", json=page_request(page.PATH))
        taken_s = time.process_time() - started
        if answer.status_code != 200:
            raise RuntimeError(f"{page.TITLE}: {answer.status}")
        print(
            f"{path.name}, {events:,} events, {page.TITLE}: {taken_s:.2f} s, "
            f"{len(answer.data) / 1000:.0f} kB"
        )


def page_request(path: str) -> dict[str, object]:
    """What a browser sends to be shown a page."""
    return {
        "output": "..page.children...drawn.data..",
        "outputs": [
            {"id": "page", "property": "children"},
            {"id": "drawn", "property": "data"},
        ],
        "inputs": [
            {"id": "location", "property": "pathname", "value": path},
            {"id": "location", "property": "search", "value": ""},
            {"id": "clock", "property": "n_intervals", "value": 0},
        ],
        "changedPropIds": ["location.pathname"],
        "state": [{"id": "drawn", "property": "data", "value": None}],
    }


def views(lanes: Lanes) -> tuple[list[float], list[int]]:
    """Milliseconds of one core and bytes of random views, from the whole pass to a few steps."""
    rng = np.random.default_rng(5)
    choice = RowChoice()
    executions = executions_of([], lanes.pass_id)
    millis, sizes = [], []
    for _ in range(_NUM_VIEWS):
        length = int(lanes.length_ns * 10 ** rng.uniform(-5, 0))
        first = int(rng.integers(0, lanes.length_ns - length + 1))
        started = time.process_time()
        rows, _left_out = timeline_rows(lanes, choice)
        asked = Asked(first, first + length, first, first + length, _PIXELS)
        text = json.dumps(view_data(lanes, rows, choice, asked, executions))
        packed = gzip.compress(text.encode(), 3)
        millis.append(1000 * (time.process_time() - started))
        sizes.append(len(packed))
    return millis, sizes


def synthetic_run(number: int, num_ranks: int) -> Run:
    """A run of one pass with about that many rows of events, half of them Horovod's."""
    num_steps = max(number // 2 // (num_ranks * len(_PARTS)), 1)
    recorded = _recorded(num_steps, num_ranks)
    written = _written(number - len(recorded), num_steps)
    events = EVENTS.frame(pd.concat([recorded, written], ignore_index=True))
    return Run(
        folder=Path(),
        manifest=_MANIFEST,
        frames={EVENTS.name: events},
        notes=(),
    )


def _recorded(num_steps: int, num_ranks: int) -> pd.DataFrame:
    step = np.repeat(np.arange(num_steps), num_ranks * len(_PARTS))
    rank = np.tile(np.repeat(np.arange(num_ranks), len(_PARTS)), num_steps)
    part = np.tile(np.arange(len(_PARTS)), num_steps * num_ranks)
    names, offsets, lengths = (np.array(column) for column in zip(*_PARTS, strict=True))
    return _frame(
        "recorder",
        "part",
        pd.Categorical.from_codes(part, pd.Index(names)),
        start_ns=step * _STEP_NS + offsets[part] * 1_000_000,
        dur_ns=lengths[part] * 1_000_000,
        rank=rank,
        step=step,
    )


def _written(number: int, num_steps: int) -> pd.DataFrame:
    """Executions of two tensors each: an operation and three activities a tensor."""
    num_executions = max(number // 8, 1)
    execution = np.repeat(np.arange(num_executions), 8)
    inside = np.tile(np.arange(8), num_executions)
    length = max(num_steps * _STEP_NS // num_executions, 8)
    what = inside % 4
    tensor = (execution * 2 + inside // 4) % _NUM_TENSORS
    frame = _frame(
        "timeline",
        "activity",
        pd.Categorical.from_codes(what, pd.Index(["ALLREDUCE", *_ACTIVITIES])),
        start_ns=execution * length + np.maximum(what - 1, 0) * (length // 4),
        dur_ns=np.where(what == 0, length * 3 // 4, length // 4),
        rank=np.zeros(len(what), int),
        step=np.zeros(len(what), int),
    )
    names = [f"allreduce.layer{number}.weight" for number in range(_NUM_TENSORS)]
    return frame.assign(
        phase=np.where(what == 0, "operation", "activity"),
        tensor=pd.Categorical.from_codes(tensor, pd.Index(names)),
        fusion_id=execution,
    )


def _frame(
    source: str, phase: str, activity: "pd.Categorical[Any]", **columns: object
) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "pass_id": "pass",
            "segment": "resnet50",
            "source": source,
            "phase": phase,
            "activity": activity,
            "collective": "",
            "tensor": "",
            "fusion_id": -1,
            "occurrence": 0,
            "size_bytes": pd.array([pd.NA], "Int64")[0],
            "clock_error_ns": 0,
            **columns,
        }
    )


if __name__ == "__main__":
    main()
