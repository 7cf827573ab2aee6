import subprocess
from pathlib import Path
from typing import ClassVar

from benchmarks.prediction_runs import OPEN_MPI, arguments_of, model_names, record, sweeps
from hvdprof.analyze.predict.jitter import LEAST_EXCEEDANCES, TAIL_SHARE
from hvdprof.rundir.plan import ModelName


def test_a_sweep_has_every_controller_and_rate_and_fits_come_first():
    planned = list(sweeps())
    assert len({sweep.name for sweep in planned}) == len(planned) == 24
    fits = planned[:8]
    assert {sweep.sizes for sweep in fits} == {(1, 2, 4)}
    assert len({(sweep.controller, sweep.rate_mbit) for sweep in fits}) == 8
    assert [max(sweep.sizes) for sweep in planned] == [4] * 8 + [8] * 8 + [16] * 8


def test_models_are_scaled_alike_with_the_fusion_threshold():
    words = arguments_of(next(sweeps()), "a:1,b:1", Path("run"))
    divisors = {ModelName.parse(name).divisor for name in model_names()}
    threshold_mb = float(words[words.index("--fusion-threshold-mb") + 1])
    assert divisors == {64 / threshold_mb}
    # Two launches per number of ranks, or nothing says how far launches differ.
    assert words[words.index("--repeats") + 1] == "2"


def test_dilation_lengthens_waits_and_cycle_and_leaves_sizes():
    plain, dilated = (arguments_of(next(sweeps(by)), "a:1,b:1", Path("run")) for by in (1, 4))
    changed = [(one, other) for one, other in zip(plain, dilated, strict=True) if one != other]
    assert changed[1] == ("5", "20")
    models = [[ModelName.parse(name) for name in names.split(",")] for names in changed[0]]
    for one, other in zip(*models, strict=True):
        assert other.emulated_step_s == 4 * one.emulated_step_s
        assert (other.reference, other.divisor) == (one.reference, one.divisor)


def test_a_sweep_limits_its_links_by_the_dilated_rate(monkeypatch):
    class Hosts:
        names = ("a", "b", "c", "d")
        limits: ClassVar[list[tuple[str, str, str]]] = []

        def limit(self, rate, burst, latency):
            self.limits.append((rate, burst, latency))

        def hvdprof_command(self, *arguments, **environment):
            assert environment == OPEN_MPI
            return list(arguments)

    monkeypatch.setattr(subprocess, "run", lambda *_arguments, **_options: None)
    for dilation in (1.0, 8.0):
        record(next(sweeps(dilation)), Path("runs"), Hosts())
    # The queue holds as many bytes, which take longer; a burst passes for the same 10 ms.
    assert Hosts.limits == [("100mbit", "125000b", "0.1s"), ("12.5mbit", "15625b", "0.8s")]


def test_the_runs_of_a_fit_show_the_tail_of_the_jitter():
    words = arguments_of(next(sweeps()), "a:1,b:1", Path("run"))
    launches, steps = (int(words[words.index(name) + 1]) for name in ("--repeats", "--num-steps"))
    num_ranks = 2
    assert launches * steps * num_ranks * TAIL_SHARE >= LEAST_EXCEEDANCES
