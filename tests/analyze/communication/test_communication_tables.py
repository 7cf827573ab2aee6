import pytest

from hvdprof.analyze.communication.communication_tables import communication_tables
from hvdprof.analyze.communication.network import link_fit
from hvdprof.api import load_run
from hvdprof.model.tables.scaling_tables import JOB_STEPS
from hvdprof.model.tables.waiting_tables import COLLECTIVE_ARRIVALS
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run


@pytest.mark.heavy
def test_launches_under_ddp_are_in_no_fit_of_a_link(tmp_path, monkeypatch):
    # Several of its buckets are in flight at once: their times do not add up to the link's.
    fitted: list[set[tuple[str, str]]] = []

    def watched(rows, ranks_of):
        fitted.append(set(ranks_of))
        return link_fit(rows, ranks_of)

    monkeypatch.setattr(f"{communication_tables.__module__}.link_fit", watched)
    passes = [
        PassSpec(
            size=2,
            repeat=repeat,
            segments=[SegmentSpec(engine=engine, parts_ms=typical_parts(10.0, 1.0))],
        )
        for repeat, engine in enumerate(("horovod", "ddp"), start=1)
    ]
    run = load_run(write_run(tmp_path, passes))
    engine_of = {
        (str(row["pass_id"]), str(row["segment"])): str(row["engine"])
        for row in run.segments.to_dict("records")
    }
    assert sorted(engine_of.values()) == ["ddp", "horovod"]

    communication_tables(run, JOB_STEPS.empty(), COLLECTIVE_ARRIVALS.empty())
    assert fitted == [{launch for launch, engine in engine_of.items() if engine == "horovod"}]
