"""The errors of files that hold nothing usable: what each is, and what was looked for.

Tested in ``tests/ingest/test_load_files.py``.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NoReturn

from hvdprof.errors import UnreadableInputError
from hvdprof.ingest.recognise import Kind, Recognised

LOOKED_FOR = (
    "Looked for: a run directory, a Horovod timeline (.json, .gz, .zst), traces of torch.profiler, "
    "dumps of the Flight Recorder, an export of Nsight Systems, a recorder file, logs of NCCL and "
    "its Inspector, a RAS report, output of nccl-tests, of Horovod and its launchers, of Megatron "
    "and DeepSpeed, an autotuning log, output of tf_cnn_benchmarks or a synthetic benchmark, a "
    "table of (np, samples/s)."
)
_READS = "hvdprof reads run directories, timelines, traces, dumps, logs and benchmarks."
_MOST_KINDS = 3


def refuse_runs(found: Sequence[Recognised]) -> None:
    """Raise where a run directory is among other files.

    Raises:
        UnreadableInputError: It is.
    """
    runs = [one.name for one in found if one.kind == Kind.RUN]
    if runs:
        raise UnreadableInputError(
            f"A run directory is read alone, not together with others: {runs[0]}.",
            hint=f"Give one of: {', '.join(runs[:5])}.",
        )


def refuse_all(files: Sequence[tuple[Recognised, str]], notes: Sequence[str]) -> NoReturn:
    """Raise the error for files of which none holds anything usable.

    Args:
        files: Each with what it is.
        notes: What reading them said.

    Raises:
        UnreadableInputError: Always.
    """
    if len(files) != 1:
        kinds = Counter(kind for _, kind in files).most_common(_MOST_KINDS)
        raise UnreadableInputError(
            f"None of the {len(files)} files holds anything that hvdprof reads "
            f"({', '.join(f'{number}: {kind}' for kind, number in kinds)}).",
            hint=next((found.hint for found, _ in files if found.hint), LOOKED_FOR),
        )
    ((found, kind),) = files
    if notes:
        raise UnreadableInputError(notes[0].rstrip(".") + ".", hint=LOOKED_FOR)
    if kind == Kind.TEXT:
        raise UnreadableInputError(
            f"{found.name} is text that holds nothing known.", hint=LOOKED_FOR
        )
    raise UnreadableInputError(
        f"{found.name} is {kind}; it is not read.", hint=found.hint or _READS
    )
