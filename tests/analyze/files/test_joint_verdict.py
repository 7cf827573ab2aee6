from pathlib import Path

import pytest

from hvdprof.analyze.files.file_analysis import analyze_files
from hvdprof.api import load_run, scaling_of_files
from hvdprof.model.file_page import Gravity
from hvdprof.model.standalone_files import FilesAnalysis
from tests.builders.nccl_log import job

BENCH = """\
Model: ResNet50
Batch size: 32
Number of GPUs: {ranks}
Iter #0: {rate:.1f} img/sec per GPU
Img/sec per GPU: {rate:.1f} +-0.9
Total img/sec on {ranks} GPU(s): {total:.1f} +-2.2
"""
SWEEP = """\
# nThread 1 nGpus 1 minBytes 1048576 maxBytes {end} step: 2(factor) warmup iters: 5 iters: 20
# Using devices
#  Rank  0 Group  0 Pid  1 on oak0 device  0 [0x1] NVIDIA H100
#  Rank  1 Group  0 Pid  2 on oak1 device  0 [0x1] NVIDIA H100
#       size         count      type   redop    root     time   algbw   busbw #wrong
     1048576        262144     float     sum      -1    100.0   10.49   {first}      0
     2097152        524288     float     sum      -1    150.0   13.98   {second}      0
"""


def written(folder: Path, files: dict[str, str]) -> FilesAnalysis:
    for name, text in files.items():
        (folder / name).write_text(text)
    return analyze_files(load_run(folder))


def bench(ranks: int, rate: float, *, via: str = "") -> str:
    log = "\n".join(job(via, num_ranks=ranks)) + "\n" if via else ""
    return log + BENCH.format(ranks=ranks, rate=rate, total=rate * ranks)


def test_runs_of_one_size_are_compared_with_the_network_of_each(tmp_path: Path) -> None:
    files = {
        "ib.log": bench(4, 147.0, via="NET/IB/0/GDRDMA"),
        "tcp.log": bench(4, 27.6, via="NET/Socket/0"),
    }
    (verdict,) = written(tmp_path, files).verdicts
    assert verdict.sentence == (
        "synthetic_benchmark ResNet50, batch 32, 4 ranks: 588 samples/s over RoCE with GPUDirect "
        "on 2 hosts (ib.log), 110 samples/s over TCP on 2 hosts (tcp.log): 5.33 times slower."
    )
    assert (verdict.gravity, verdict.caveat) == (Gravity.WARNING, "")


def test_without_a_network_what_differs_is_open(tmp_path: Path) -> None:
    files = {"a.log": bench(4, 147.0), "b.log": bench(4, 100.0), "c.log": bench(4, 120.0)}
    (verdict,) = written(tmp_path, files).verdicts
    assert verdict.sentence.endswith(
        "588 samples/s (a.log), 400 samples/s (b.log): 1.47 times slower, slowest against fastest "
        "of 3 files."
    )
    assert verdict.caveat == "The files do not show what differs."


def test_runs_that_are_alike_are_no_warning(tmp_path: Path) -> None:
    (verdict,) = written(tmp_path, {"a.log": bench(4, 147.0), "b.log": bench(4, 146.0)}).verdicts
    assert verdict.sentence.endswith("584 samples/s to 588 samples/s in 2 files: within 0.7 %.")
    assert verdict.gravity == Gravity.NONE


def test_several_sizes_have_the_verdict_of_scaling(tmp_path: Path) -> None:
    files = {"one.log": bench(1, 150.0), "two.log": bench(2, 120.0), "again.log": bench(1, 148.0)}
    found = written(tmp_path, files)
    stated = scaling_of_files(tmp_path)
    assert found.verdicts[1:] == stated.verdicts
    assert "scaling efficiency on 2 ranks against np=1" in stated.verdicts[0].sentence
    # The table below states the same efficiency, not that there is no baseline.
    efficiency = stated.scaling["efficiency"].iloc[-1]
    assert found.throughput_scaling["efficiency"].iloc[-1] == pytest.approx(efficiency)


def test_tables_that_name_no_job_are_not_compared(tmp_path: Path) -> None:
    files = {"a.csv": "np,samples/s\n1,100\n2,190\n", "b.csv": "np,samples/s\n1,10\n2,19\n"}
    assert not [one for one in written(tmp_path, files).verdicts if "slower" in one.sentence]


def test_one_file_alone_has_no_joint_verdict(tmp_path: Path) -> None:
    assert written(tmp_path, {"one.log": bench(4, 147.0)}).verdicts == ()


@pytest.mark.parametrize(("second", "times"), [("13.98", None), ("2.00", "6.99 times slower")])
def test_bandwidths_are_compared_at_the_largest_common_size(
    tmp_path: Path, second: str, times: str | None
) -> None:
    fast = SWEEP.format(end=2097152, first="10.49", second="13.98")
    slow = SWEEP.format(end=2097152, first="10.49", second=second)
    (verdict,) = written(tmp_path, {"fast.txt": fast, "slow.txt": slow}).verdicts
    assert verdict.sentence.startswith("NVIDIA H100, 2 ranks, 2.10 MB: ")
    assert verdict.caveat == ("The files do not name the operation." if times else "")
    assert (verdict.gravity == Gravity.WARNING) == (times is not None)
    assert (times or "within 0.0 %") in verdict.sentence
