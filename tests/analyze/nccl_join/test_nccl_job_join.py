from pathlib import Path

import pytest

from hvdprof.analyze.files.nccl_facts import job_join_facts
from hvdprof.analyze.nccl_join.nccl_call_join import JobJoins, join_jobs
from hvdprof.api import analyze_files, load_run
from hvdprof.model.run import Run
from hvdprof.model.tables.timeline_tables import TENSOR_USES
from tests.builders.nccl_log import call_line, job
from tests.builders.timeline_writer import TimelineWriter


def write_timeline(path: Path, elements: list[int]) -> Path:
    writer = TimelineWriter()
    for number in elements:
        writer.negotiate(["allreduce.a"])
        shapes = {"allreduce.a": f"[{number}]"}
        writer.execute(["allreduce.a"], activities=["NCCL_ALLREDUCE"], shapes=shapes)
    path.write_text(writer.text())
    return path


def write_log(path: Path, elements: list[int], *, dtype: int = 7) -> Path:
    calls = [call_line(0, count, n=n, dtype=dtype) for n, count in enumerate(elements)]
    path.write_text("\n".join([*job(num_ranks=2), *calls]) + "\n")
    return path


def joins_of(paths: list[Path]) -> tuple[Run, JobJoins]:
    run = load_run(paths)
    return run, join_jobs(run.nccl, run.events, run.table(TENSOR_USES.name))


ONE, OTHER = [100, 7, 300, 9], [1000, 70, 3000, 90]


@pytest.mark.heavy
def test_each_job_is_paired_with_the_timeline_that_fits(tmp_path: Path) -> None:
    logs = [write_log(tmp_path / "1.log", OTHER), write_log(tmp_path / "2.log", [5, *ONE])]
    timelines = [
        write_timeline(tmp_path / "one.json", ONE),
        write_timeline(tmp_path / "other.json", OTHER),
    ]
    run, joins = joins_of([*logs, *timelines])
    assert {job: join.fitting for job, join in joins.by_job.items()} == {
        0: (str(timelines[1]),),
        1: (str(timelines[0]),),
    }
    calls = run.table("nccl_calls").loc[joins.pairs["call"]]
    assert calls["count"].tolist() == [*OTHER, *ONE]
    assert joins.pairs["pass_id"].tolist() == [str(timelines[1])] * 4 + [str(timelines[0])] * 4
    facts = {fact.name: fact.value for fact in job_join_facts(joins.by_job[1])}
    assert facts == {
        "timeline_of_calls": str(timelines[0]),
        "num_joined_calls": 4,
        "num_unjoined_calls": 1,
        "num_unjoined_executions": 0,
        "num_ambiguous_pairs": 0,
    }


@pytest.mark.heavy
def test_the_analysis_of_files_joins_every_job(tmp_path: Path) -> None:
    logs = [write_log(tmp_path / "1.log", OTHER), write_log(tmp_path / "2.log", [5, *ONE])]
    timelines = [
        write_timeline(tmp_path / "one.json", ONE),
        write_timeline(tmp_path / "other.json", OTHER),
    ]
    found = analyze_files(load_run([*logs, *timelines]))
    joined_to = {
        page.file: {fact.name: fact.value for fact in page.facts}.get("timeline_of_calls")
        for page in found.files
    }
    assert joined_to == {
        str(logs[0]): str(timelines[1]),
        str(logs[1]): str(timelines[0]),
        str(timelines[0]): None,
        str(timelines[1]): None,
    }
    assert len(found.derived["nccl_joined_calls"]) == 8


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("logs", "timelines", "reasons"),
    [
        ([ONE], [ONE, ONE], {0: "2 of 2 fit"}),
        ([ONE, ONE], [ONE], {0: "{0} fits other logs too", 1: "{0} fits other logs too"}),
        ([ONE], [OTHER, OTHER, OTHER], {0: "none of 3 fits"}),
    ],
    ids=["two timelines", "two jobs", "none"],
)
def test_nothing_is_joined_where_not_exactly_one_fits(
    tmp_path: Path, logs: list[list[int]], timelines: list[list[int]], reasons: dict[int, str]
) -> None:
    written = [write_timeline(tmp_path / f"{n}.json", one) for n, one in enumerate(timelines)]
    paths = [write_log(tmp_path / f"{n}.log", one) for n, one in enumerate(logs)]
    _, joins = joins_of([*paths, *written])
    assert joins.pairs.empty
    joined_to = {}
    for job_number, one in joins.by_job.items():
        (fact,) = job_join_facts(one)
        joined_to[job_number] = fact.value
    assert joined_to == {job: reason.format(*written) for job, reason in reasons.items()}


@pytest.mark.heavy
def test_types_that_differ_do_not_fit(tmp_path: Path) -> None:
    # Half as many elements of twice the size: only the type differs.
    log = write_log(tmp_path / "a.log", [number // 2 for number in (100, 8, 300)], dtype=8)
    timeline = write_timeline(tmp_path / "a.json", [100, 8, 300])
    _, joins = joins_of([log, timeline])
    assert joins.by_job[0].fitting == ()
    assert joins.pairs.empty


@pytest.mark.heavy
def test_without_calls_or_timelines_there_is_nothing_to_say(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("\n".join(job()) + "\n")
    _, joins = joins_of([log, write_timeline(tmp_path / "a.json", ONE)])
    assert joins.by_job == {}
    _, joins = joins_of([write_log(tmp_path / "b.log", ONE)])
    assert joins.by_job == {}
    assert joins.pairs.empty
