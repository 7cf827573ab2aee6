"""The picture of `hvdprof watch` on a terminal: a simulated job of 8 ranks, one slow for a while.

TZ=UTC .venv/bin/python -m docs.watch_picture
"""

import io
import tempfile
from pathlib import Path

from rich.console import Console

from hvdprof.api.live import Event, Look, Watcher
from hvdprof.cli.progress.watch_screen import drawn
from tests.builders.live_job import WALL_NS, LiveJob

PICTURE = Path(__file__).parent / "images" / "watch.svg"
WIDTH = 96
WINDOWS = 260


def job_looks(folder: Path) -> list[Look]:
    """What is seen window by window of a job whose rank 5 is slow in its data twice."""
    now_s = [0.0]
    is_slow = range(60, 140), range(200, WINDOWS)
    job = LiveJob(
        folder, 8, lambda rank, at: 0.25 * (rank == 5) * any(at in one for one in is_slow)
    )
    watcher = Watcher(folder, lambda: now_s[0], lambda: WALL_NS / 1e9 + now_s[0])
    looks = []
    for _ in range(WINDOWS):
        job.record(1)
        if job.number % 5 == 0:
            for rank in range(8):
                job.sample(rank, rss=2e9 + 1e7 * rank)
            job.sample(0, "host", memory_available=48e9)
        now_s[0] = job.now_ns / 1e9
        looks.append(watcher.look())
    return looks


def picture(looks: list[Look]) -> str:
    """The last look with the events of all, as SVG without fonts from elsewhere."""
    events: list[Event] = [event for look in looks for event in look.events]
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(drawn(looks[-1].snapshot, events))
    svg = console.export_svg(title="hvdprof watch runs/resnet", unique_id="watch")
    begin, end = svg.index("@font-face"), svg.index(".watch-matrix {")
    return svg[:begin] + svg[end:]


def main() -> None:
    """Write the picture."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "resnet"
        PICTURE.write_text(picture(job_looks(folder)), encoding="utf-8")


if __name__ == "__main__":
    main()
