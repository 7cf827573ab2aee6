import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hvdprof.api import analyze_files, load_run
from tests.builders.flight_dumps import dump, write_dumps
from tests.builders.nsys_exports import write_export
from tests.builders.recorder_lines import recorder_lines
from tests.builders.run_directory import PassSpec, SegmentSpec
from tests.ingest.logs.deepspeed.test_deepspeed_comms import SUMMARY
from tests.ingest.logs.test_megatron_log import WORLD, iteration
from tests.ingest.logs.test_nccl_inspector import header, perf, text

TORCHRUN = "hvdprof run --launcher torchrun --np {} -- python train.py"
KERNELS = [(0, 10, 0, "gemm"), (5, 15, 0, "ncclDevKernel_AllReduce_Sum_f32_RING_LL")]


def written(content: str) -> Callable[[Path], Path]:
    def write(folder: Path) -> Path:
        (folder / "job.out").write_text(content)
        return folder

    return write


@pytest.mark.parametrize(
    ("source", "num_ranks"),
    [
        (lambda folder: write_dumps(folder, {3: dump(ranks=range(16))}), "16"),
        (lambda folder: write_dumps(folder, {2: dump(ranks=())}), "3"),
        (lambda folder: write_export(folder / "a.sqlite", KERNELS), "N"),
        (written(text({**header(5, num_ranks=8), "coll_perf": perf(1)})), "8"),
        (written(SUMMARY), "N"),
        (written(WORLD + "".join(iteration(number, 500) for number in range(1, 5))), "8"),
    ],
    ids=["a dump of 16", "a dump of gloo", "nsys", "inspector", "deepspeed", "megatron"],
)
def test_files_of_torch_jobs_name_torchrun_and_the_world_size(
    tmp_path: Path, source: Callable[[Path], Path], num_ranks: str
) -> None:
    (page,) = analyze_files(load_run(source(tmp_path))).files
    assert TORCHRUN.format(num_ranks) in [one.command for one in page.unanswered]


@pytest.mark.parametrize(
    ("engine", "launcher"), [("horovod", ""), ("ddp", "--launcher torchrun "), ("torch", "")]
)
def test_recorder_files_name_the_launcher_of_their_engine(
    tmp_path: Path, engine: str, launcher: str
) -> None:
    spec = PassSpec(size=2, segments=[SegmentSpec(engine=engine, num_steps=3)])
    for rank in range(2):
        lines = [json.dumps(line) for line in recorder_lines(spec, rank)]
        (tmp_path / f"rank-{rank}.jsonl").write_text("\n".join(lines) + "\n")
    (page,) = analyze_files(load_run(tmp_path)).files
    (unanswered,) = page.unanswered
    assert unanswered.command == f"hvdprof run {launcher}--np 1,2,4 -- python train.py"
