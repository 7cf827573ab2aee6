"""The files of a run; the only module that spells file names of a run directory."""

import re
from dataclasses import dataclass
from pathlib import Path

from hvdprof.rundir.launch_format import FACTS_FILE, TURNS_FILE
from hvdprof.rundir.recording.stall_format import EVENTS_FILE, STALLS_FILE
from hvdprof.rundir.regular_file import unreadable

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


def is_run_directory(path: Path) -> bool:
    """Whether a folder is a run directory: it has a manifest, even if no launch has run yet.

    Raises:
        UnreadableInputError: It cannot be looked at.
    """
    try:
        return (path / MANIFEST_NAME).is_file()
    except OSError as error:
        raise unreadable(path, error) from error


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


class _Inside:
    """The path of a name in the folder of the paths that it is asked of."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, paths: "PassPaths | RunPaths | TuningPaths", owner: type) -> Path:
        """The path; whether something is there is not looked at."""
        return paths.folder / self._name


@dataclass(frozen=True, slots=True)
class PassPaths:
    """The files of one pass (one launch of the training processes)."""

    folder: Path

    plan = _Inside("plan.json")
    """The segments that the ranks execute."""
    stdout = _Inside("stdout.txt")
    """Standard output of the launcher and all ranks."""
    stderr = _Inside("stderr.txt")
    """Standard error of the launcher and all ranks."""

    def of_failed_start(self, output: Path, number: int) -> Path:
        """``stdout`` or ``stderr`` of a start after which the launch was started again."""
        return output.with_name(f"{output.stem}-start{number}{output.suffix}")

    output_folder = _Inside("output")
    """Output of single ranks: attached files alone."""
    watch_folder = _Inside("watch")
    """The folder of the state of blocked ranks."""

    def watch_file(self, rank: int) -> Path:
        """The state of a rank that is blocked."""
        return self.watch_folder / f"rank-{rank}.json"

    def stack_file(self, rank: int) -> Path:
        """The stacks of a rank that is blocked."""
        return self.watch_folder / f"rank-{rank}.stack"

    stalls = _Inside(STALLS_FILE)
    """The stalls that the launching side saw, one per line."""
    events = _Inside(EVENTS_FILE)
    """What a watcher saw while the ranks ran, one per line."""
    turns = _Inside(TURNS_FILE)
    """The turns of a resident launch, one per line."""
    seen_mark = _Inside("seen-mark")
    """Exists while functions run; by it their ranks know whether they see this folder."""
    recorder_folder = _Inside("recorder")
    """The folder of the recorder files, one per rank."""
    flight_folder = _Inside("flight")
    """The folder of PyTorch's Flight Recorder files, one per rank."""
    unrecorded = _Inside("recorder/unrecorded.txt")
    """There where a rank trains what cannot be recorded."""
    ddp_facts = _Inside(f"recorder/{FACTS_FILE}")
    """How a script wraps its largest model in DDP; absent where it wraps none."""

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

    trace_folder = _Inside("traces")
    """Profiler traces of the ranks: attached files alone."""
    recording_folder = _Inside("recordings")
    """Files of other recorders: attached files alone."""

    def session(self, number: int) -> "PassPaths":
        """The files of a session of an elastic launch: a pass of its own beside the launch."""
        return PassPaths(self.folder.with_name(session_id(self.folder.name, number)))

    def sessions(self) -> dict[int, "PassPaths"]:
        """The sessions of an elastic launch that have begun, by number."""
        head = self.session(0).folder.name.removesuffix("0")
        folders = self.folder.parent.glob(f"{head}*")
        numbers = filter(str.isdecimal, (path.name.removeprefix(head) for path in folders))
        return {number: self.session(number) for number in sorted(map(int, numbers))}

    nccl_folder = _Inside("nccl")
    """The folder of NCCL's logs, one per process."""


@dataclass(frozen=True, slots=True)
class RunPaths:
    """The files of one run."""

    folder: Path

    manifest = _Inside(MANIFEST_NAME)
    """The manifest, the one file that makes a folder a run."""
    resume = _Inside(RESUME_NAME)
    """What ``--resume`` starts again, with its secrets; readable by its owner alone."""
    net = _Inside(NET_NAME)
    """Measurements of the network between the hosts; absent without any."""
    forecasts = _Inside("forecasts")
    """The folder of the forecasts that were made from the run, one JSON object per file."""
    forecast_scores = _Inside("forecast_scores.json")
    """The scores of these forecasts against later measurements."""
    disk_reserve = _Inside("reserve")
    """Exists during the run: space for the manifest on a disk that has become full."""

    def of_pass(self, pass_id: str) -> PassPaths:
        """The files of the pass of that id."""
        return PassPaths(self.folder / "passes" / pass_id)


@dataclass(frozen=True, slots=True)
class TuningPaths:
    """The files of one tuning; what its settings measured are run directories of their own."""

    folder: Path

    result = _Inside(TUNING_NAME)
    """The result, the one file that makes a folder a finished tuning."""
    present = _Inside("present")
    """The run of the present setting, with its trace."""
    race = _Inside("race")
    """Holds a run of each setting that raced."""
    check = _Inside("check")
    """Holds a run of each setting that was measured anew after the race."""
