"""The files of a run; the only module that spells file names of a run directory."""

import re
from dataclasses import dataclass
from pathlib import Path

from hvdprof.rundir.launch_format import FACTS_FILE, TURNS_FILE
from hvdprof.rundir.recording.stall_format import EVENTS_FILE, STALLS_FILE

MANIFEST_NAME = "manifest.json"
NET_NAME = "net.jsonl"
RESUME_NAME = "resume.json"
TUNING_NAME = "tuning.json"
RUNS_FOLDER = Path("runs")

REQUESTS = "request-*.json"
"""What a watcher asks of ranks, a file for each."""

SAMPLES, STACKS, TRACE = ANSWERS = ".jsonl", ".stack", ".pt.trace.json.gz"
"""Endings of the files that a rank writes on an event: sampled lines, stacks, profiled steps."""

_LINES = re.compile(r"lines-(\d+)(?:-worker-.*)?\.jsonl")


_HEAD_BYTES = 4_096


def is_run_below(folder: Path, level: int) -> bool:
    """Whether a folder so many levels below a searched one is a run directory.

    Deep down, manifests of other programs are many: there the version of hvdprof must be in it.

    Raises:
        OSError: It cannot be looked at.
    """
    manifest = folder / MANIFEST_NAME
    if level == 1 or not manifest.is_file():
        return manifest.is_file()
    with manifest.open("rb") as file:
        return b'"hvdprof_version"' in file.read(_HEAD_BYTES)


def watched_mark(recorder_folder: Path) -> Path:
    """A file whose time changes while ``hvdprof watch`` follows the ranks that record there."""
    return recorder_folder / "watched"


def request_file(recorder_folder: Path, rank: int) -> Path:
    """What a watcher asks of a rank that records there."""
    return recorder_folder / f"request-{rank}.json"


def is_of_watcher(path: Path) -> bool:
    """Whether a file beside recorder files is a watcher's, for the ranks to see."""
    return path == watched_mark(path.parent) or path.match(REQUESTS)


def answer_file(
    recorder_folder: Path, event: int, rank: int, ending: str, *, worker: int | None = None
) -> Path:
    """What a rank, or a worker of it, was asked for on an event: one of ``ANSWERS``."""
    return recorder_folder / f"event-{event}-rank-{rank}{_of_worker(worker)}{ending}"


def _of_worker(number: int | None) -> str:
    return "" if number is None else f"-worker-{number}"


def session_id(pass_id: str, number: int) -> str:
    """The id of a session of an elastic launch, as a pass of its own."""
    return f"{pass_id}-session{number}"


@dataclass(frozen=True, slots=True)
class PassPaths:
    """The files of one pass (one launch of the training processes)."""

    folder: Path

    @property
    def plan(self) -> Path:
        """The segments that the ranks execute."""
        return self.folder / "plan.json"

    @property
    def stdout(self) -> Path:
        """Standard output of the launcher and all ranks."""
        return self.folder / "stdout.txt"

    @property
    def stderr(self) -> Path:
        """Standard error of the launcher and all ranks."""
        return self.folder / "stderr.txt"

    def of_failed_start(self, output: Path, number: int) -> Path:
        """``stdout`` or ``stderr`` of a start after which the launch was started again."""
        return output.with_name(f"{output.stem}-start{number}{output.suffix}")

    @property
    def output_folder(self) -> Path:
        """Output of single ranks: attached files alone."""
        return self.folder / "output"

    @property
    def watch_folder(self) -> Path:
        """The folder of the state of blocked ranks."""
        return self.folder / "watch"

    def watch_file(self, rank: int) -> Path:
        """The state of a rank that is blocked."""
        return self.watch_folder / f"rank-{rank}.json"

    def stack_file(self, rank: int) -> Path:
        """The stacks of a rank that is blocked."""
        return self.watch_folder / f"rank-{rank}.stack"

    @property
    def stalls(self) -> Path:
        """The stalls that the launching side saw, one per line."""
        return self.folder / STALLS_FILE

    @property
    def events(self) -> Path:
        """What a watcher saw while the ranks ran, one per line."""
        return self.folder / EVENTS_FILE

    @property
    def turns(self) -> Path:
        """The turns of a resident launch, one per line."""
        return self.folder / TURNS_FILE

    @property
    def seen_mark(self) -> Path:
        """Exists while functions run; by it their ranks know whether they see this folder."""
        return self.folder / "seen-mark"

    @property
    def recorder_folder(self) -> Path:
        """The folder of the recorder files, one per rank."""
        return self.folder / "recorder"

    @property
    def flight_folder(self) -> Path:
        """The folder of PyTorch's Flight Recorder files, one per rank."""
        return self.folder / "flight"

    @property
    def unrecorded(self) -> Path:
        """There where a rank trains what cannot be recorded."""
        return self.recorder_folder / "unrecorded.txt"

    @property
    def ddp_facts(self) -> Path:
        """How a script wraps its largest model in DDP; absent where it wraps none."""
        return self.recorder_folder / FACTS_FILE

    def recorder_file(self, rank: int) -> Path:
        """The recorder file of a rank."""
        return self.recorder_folder / f"rank-{rank}.jsonl"

    def recorder_files(self) -> list[Path]:
        """The recorder files that exist, by rank."""
        files = self.recorder_folder.glob("rank-*.jsonl")
        ranks = {path.stem.removeprefix("rank-"): path for path in files}
        return [ranks[rank] for rank in sorted(filter(str.isdecimal, ranks), key=int)]

    def lines_file(self, rank: int, *, worker: int | None = None) -> Path:
        """Sampled lines of a rank, or of one of its workers at a time, from 0."""
        return self.recorder_folder / f"lines-{rank}{_of_worker(worker)}.jsonl"

    def lines_files(self) -> dict[int, list[Path]]:
        """The files of sampled lines that exist, by rank: its own, then those of its workers."""
        found: dict[int, list[Path]] = {}
        paths = self.recorder_folder.glob("lines-*.jsonl")
        for path in sorted(paths, key=lambda path: ("worker" in path.stem, path)):
            named = _LINES.fullmatch(path.name)
            if named and path.is_file():
                found.setdefault(int(named[1]), []).append(path)
        return found

    def samples_file(self, rank: int) -> Path:
        """Samples of the machine that a rank took; absent in older recordings."""
        return self.recorder_folder / f"samples-{rank}.jsonl"

    def timeline(self, segment: str) -> Path:
        """Horovod's timeline of one segment, written by rank 0 alone."""
        return self.folder / "timeline" / f"{segment}.json"

    @property
    def trace_folder(self) -> Path:
        """Profiler traces of the ranks: attached files alone."""
        return self.folder / "traces"

    @property
    def recording_folder(self) -> Path:
        """Files of other recorders: attached files alone."""
        return self.folder / "recordings"

    def session(self, number: int) -> "PassPaths":
        """The files of a session of an elastic launch: a pass of its own beside the launch."""
        return PassPaths(self.folder.with_name(session_id(self.folder.name, number)))

    def sessions(self) -> dict[int, "PassPaths"]:
        """The sessions of an elastic launch that have begun, by number."""
        head = self.session(0).folder.name.removesuffix("0")
        folders = self.folder.parent.glob(f"{head}*")
        numbers = filter(str.isdecimal, (path.name.removeprefix(head) for path in folders))
        return {number: self.session(number) for number in sorted(map(int, numbers))}

    @property
    def nccl_folder(self) -> Path:
        """The folder of NCCL's logs, one per process."""
        return self.folder / "nccl"


@dataclass(frozen=True, slots=True)
class RunPaths:
    """The files of one run."""

    folder: Path

    @property
    def manifest(self) -> Path:
        """The manifest, the one file that makes a folder a run."""
        return self.folder / MANIFEST_NAME

    @property
    def resume(self) -> Path:
        """What ``--resume`` starts again, with its secrets; readable by its owner alone."""
        return self.folder / RESUME_NAME

    @property
    def net(self) -> Path:
        """Measurements of the network between the hosts; absent without any."""
        return self.folder / NET_NAME

    @property
    def forecasts(self) -> Path:
        """The folder of the forecasts that were made from the run, one JSON object per file."""
        return self.folder / "forecasts"

    @property
    def forecast_scores(self) -> Path:
        """The scores of these forecasts against later measurements."""
        return self.folder / "forecast_scores.json"

    @property
    def disk_reserve(self) -> Path:
        """Exists during the run: space for the manifest on a disk that has become full."""
        return self.folder / "reserve"

    def of_pass(self, pass_id: str) -> PassPaths:
        """The files of the pass of that id."""
        return PassPaths(self.folder / "passes" / pass_id)


@dataclass(frozen=True, slots=True)
class TuningPaths:
    """The files of one tuning; what its settings measured are run directories of their own."""

    folder: Path

    @property
    def result(self) -> Path:
        """The result, the one file that makes a folder a finished tuning."""
        return self.folder / TUNING_NAME

    @property
    def present(self) -> Path:
        """The run of the present setting, with its trace."""
        return self.folder / "present"

    @property
    def race(self) -> Path:
        """Holds a run of each setting that raced."""
        return self.folder / "race"

    @property
    def check(self) -> Path:
        """Holds a run of each setting that was measured anew after the race."""
        return self.folder / "check"
