import pytest

from hvdprof.rundir.failures.launcher_failures import Failure, FailureKind, with_kind
from hvdprof.rundir.manifest import Manifest
from tests.builders.recorded_runs import unpacked

UNEQUAL = "unequal numbers of batches per rank: rank 1 had ended the training loop after 39 steps"
STALL = "stall at step 29 since 19:21:57 until the job ended: rank 0 waited 21.0 s for rank 1"


@pytest.mark.parametrize(
    ("reason", "kind", "detail"),
    [
        ("no progress on any rank for 20.0 s", FailureKind.HUNG, ""),
        (f"no progress on any rank for 20.0 s; {STALL}", FailureKind.HUNG, ""),
        (f"ended by --stall-kill: {STALL}", FailureKind.STALLED, ""),
        (f"rank 0 gave up waiting: Timed out; {STALL}", FailureKind.STALLED, ""),
        (f"rank 0 lost a peer; {UNEQUAL}", FailureKind.UNEQUAL, UNEQUAL),
        ("it was interrupted", FailureKind.INTERRUPTED, ""),
        (f"it was interrupted; {STALL}", FailureKind.INTERRUPTED, ""),
        ("not retried because it hung before", FailureKind.NOT_RETRIED, ""),
        ("rank 1 was stopped by a signal, and rank 0 gave up waiting: Timed out", None, ""),
        ("rank 1 raised ValueError: no progress on any rank", None, ""),
        ("hvdprof was killed", None, ""),
    ],
)
def test_a_failure_of_an_older_version_gets_its_kind(reason, kind, detail):
    failure = Failure(reason=reason, rank=1)
    assert with_kind(failure) == Failure(reason=reason, kind=kind, detail=detail, rank=1)


@pytest.mark.parametrize(
    ("name", "kind"), [("ddp-hang", FailureKind.HUNG), ("horovod-failed", None)]
)
def test_a_manifest_without_kinds_is_read_with_them(name, kind, tmp_path):
    folder = unpacked(name, tmp_path)
    assert '"kind"' not in (folder / "manifest.json").read_text()
    manifest = Manifest.read(folder)
    failures = [part.failure for record in manifest.passes for part in record.segments]
    assert [failure.kind for failure in failures if failure] == [kind]
