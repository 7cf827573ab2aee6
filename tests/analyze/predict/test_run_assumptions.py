from dataclasses import replace

from hvdprof.analyze.predict.run_assumptions import run_assumptions
from tests.builders.predicted_jobs import stated_job


def test_a_compute_slowdown_is_partly_of_communication() -> None:
    slow, even = (list(run_assumptions(stated_job(slowdown=share))) for share in (0.1, 0.0))

    assert any(one.startswith("Compute is slower than on one rank.") for one in slow)
    assert not any("slower" in one for one in even)


def test_one_measured_rank_is_singular() -> None:
    job = stated_job()
    alone = replace(job, spread=replace(job.spread, num_ranks=1))

    assert any("as the 1 measured rank;" in one for one in run_assumptions(alone))
