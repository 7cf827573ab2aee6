from dataclasses import replace

import pytest

from hvdprof.analyze.pipeline import analyze_run
from hvdprof.api import load_run
from tests.builders.analysis import sweep
from tests.builders.recorder_lines import host_of
from tests.builders.run_directory import write_run


def caveat(folder, other_cpu_cores, num_cores=2):
    passes = [replace(one, other_cpu_cores=other_cpu_cores) for one in sweep({0: 10.0, 2: 15.0})]
    write_run(folder, passes, hosts=[host_of("node1", num_cores)])
    return analyze_run(load_run(folder)).verdict.caveat


@pytest.mark.slow
def test_other_processes_on_the_machine_are_a_caveat_of_the_verdict(tmp_path):
    assert caveat(tmp_path / "crowded", 1.7).startswith(
        "Other processes kept up to 1.7 of 2 cores busy. Measure again without them before acting."
    )
    assert "Other processes" not in caveat(tmp_path / "quiet", 0.05)


def test_spare_cores_need_no_caveat(tmp_path):
    assert "Other processes" not in caveat(tmp_path, 1.7, num_cores=64)
