"""A function of the user in a rank: recorded, and its result carried back.

Launchers that start functions instead of scripts send it pickled and bring back one value per
rank. That value is an end of the rank here: what the function returned or raised, and the
recording where this host does not see the run directory.
"""

import inspect
import json
import os
import pickle
import shutil
import sys
import tempfile
import traceback
import zlib
from dataclasses import dataclass, field
from pathlib import Path

from hvdprof.collect import _hooks
from hvdprof.collect.auto.startup import hvdprof_import_hook
from hvdprof.collect.host_facts import loaded_horovod
from hvdprof.collect.session_factory import own_identity
from hvdprof.collect.watchdog import STALL_WARN
from hvdprof.rundir.layout import PassPaths
from hvdprof.rundir.recording.recorder_codec import to_bytes

MAX_CARRIED_BYTES = 128 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class RankEnd:
    """How a function ended in a rank.

    ``value`` is what it returned, pickled, None where it raised or was ended after the steps that
    were asked for; ``error`` is the text of what it raised, empty where it did not. ``files`` are
    those of the pass folder that this rank wrote elsewhere, compressed, by their path in it.
    """

    rank: int
    value: bytes | None
    error: str
    files: dict[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedFunction:
    """Called without arguments in every rank; returns its ``RankEnd`` and never raises.

    Args:
        function: A pickled tuple of function, positional and keyword arguments.
        environment: What is set for the ranks of the pass.
        unset: Names of variables that must not be set unless ``environment`` does.
        python_path: Folders in which the starting process found modules.
        pass_folder: The pass folder of the run directory, where the ranks see it.
        mark: The text of its ``seen_mark``, by which they know that they do.
    """

    function: bytes
    environment: dict[str, str]
    unset: tuple[str, ...]
    python_path: tuple[str, ...]
    pass_folder: str
    mark: str

    def __call__(self) -> RankEnd:
        """Call the function under the recorder."""
        sees = self._sees_pass_folder()
        folder = Path(self.pass_folder if sees else tempfile.mkdtemp(prefix="hvdprof-"))
        try:
            self._set_environment(folder)
            rank = own_identity().rank
            value, error = self._call()
            # Other ranks that wait for this one fail now; where a process outlives its function
            # nothing else would end them, or the recording.
            _end_recording(has_failed=bool(error))
            files = {} if sees else carried_files(folder)
            return RankEnd(rank=rank, value=value, error=error, files=files)
        finally:
            if not sees:
                shutil.rmtree(folder, ignore_errors=True)

    def _sees_pass_folder(self) -> bool:
        paths = PassPaths(Path(self.pass_folder))
        try:
            return paths.seen_mark.read_text() == self.mark and os.access(paths.folder, os.W_OK)
        except OSError:
            return False

    def _set_environment(self, folder: Path) -> None:
        for name in self.unset:
            os.environ.pop(name, None)
        for name, value in self.environment.items():
            # A variable with the pass folder at its place on this host, also within JSON.
            now = str(folder)
            inside_json = (json.dumps(self.pass_folder)[1:-1], json.dumps(now)[1:-1])
            os.environ[name] = value.replace(self.pass_folder, now).replace(*inside_json)
        if str(folder) != self.pass_folder:
            # The launching side sees no stall there, and the watch outlives the folder.
            os.environ.pop(STALL_WARN, None)
        sys.path += [entry for entry in self.python_path if entry not in sys.path]
        hvdprof_import_hook.install()

    def _call(self) -> tuple[bytes | None, str]:
        import cloudpickle

        try:
            function, args, kwargs = pickle.loads(self.function)
            return cloudpickle.dumps(function(*args, **kwargs)), ""
        except SystemExit as end:
            # So the recorder ends a training after the steps that were asked for.
            return None, "" if end.code in (None, 0) else f"SystemExit: {end.code}"
        except Exception:
            return None, traceback.format_exc()


def carried_files(folder: Path, most_bytes: int = MAX_CARRIED_BYTES) -> dict[str, bytes]:
    """The files of a folder, compressed by zlib, by their path in it.

    The small ones first. A file that exceeds ``most_bytes`` in all is cut behind a whole line; a
    recorder file then ends with a ``problem`` line.
    """
    left, carried = most_bytes, {}
    files = [path for path in folder.rglob("*") if path.is_file()]
    for path in sorted(files, key=lambda path: (path.stat().st_size, path)):
        data = _begin_of(path, left)
        left -= len(data)
        carried[str(path.relative_to(folder))] = zlib.compress(data)
    return carried


def _begin_of(path: Path, most_bytes: int) -> bytes:
    size = path.stat().st_size
    with path.open("rb") as file:
        data = file.read(max(0, most_bytes))
    if len(data) == size:
        return data
    data = data[: data.rfind(b"\n") + 1]
    if path.suffix == ".jsonl":
        message = f"only {len(data)} of {size} bytes of this recording were carried back"
        data += to_bytes({"kind": "problem", "message": message})
    return data


def _end_recording(*, has_failed: bool) -> None:
    hvd = loaded_horovod()
    if hvd is None:
        return
    if has_failed:
        _hooks.abandon()
        # The original, since ours would complete a recording together with the other ranks.
        inspect.unwrap(hvd.shutdown)()
    else:
        hvd.shutdown()
