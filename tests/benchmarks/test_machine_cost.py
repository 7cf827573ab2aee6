"""The benchmark of what samples of the machine cost."""

import time

import pytest

from benchmarks.machine_cost import cost_s, main
from hvdprof.collect.devices.sample_window import Source, Values


class Slow(Source):
    scope = "host"

    def read(self) -> Values:
        end_s = time.thread_time() + 0.002
        while time.thread_time() < end_s:
            pass
        return {"busy": 1.0}


def test_the_cost_is_processor_time_of_a_sample() -> None:
    assert cost_s(Slow(), 20) == pytest.approx(0.002, rel=0.5)


def test_it_prints_each_source_and_the_sum(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--ranks", "2"])
    rank, host, total = capsys.readouterr().out.splitlines()

    assert rank.startswith("rank ")
    assert host.startswith("host ")
    assert total.startswith("host with 2 ranks, once a second: ")
    assert float(total.split()[-5]) < 1
