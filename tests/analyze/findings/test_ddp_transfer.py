import pytest

from hvdprof.analyze.findings.evidence import Evidence
from hvdprof.analyze.findings.run_rules.ddp_transfer import tune_command
from hvdprof.analyze.pipeline import findings
from hvdprof.model.table_catalogue import TABLES
from hvdprof.rundir.attached import AttachedFile, AttachedKind, attached_settings
from hvdprof.rundir.launch_format import DdpFacts
from tests.builders.declared_rows import declared_rows
from tests.builders.finished_analysis import cell, manifest, pass_record, run, segment

OF_SCRIPT = {"command": ["/venv/bin/python", "train.py"], "is_function": False}


def command(words, script=OF_SCRIPT, options=None, **settings):
    own = {"script": script, "launcher": "horovodrun", "hosts": None} | settings
    recorded = manifest(command=words, settings=own, options=options or {})
    return tune_command(run(manifest=recorded), 4)


RUN = ["hvdprof", "run", "--np", "1,4", "--", "python", "train.py", "--name", "a b"]


def test_the_script_is_named_as_the_user_wrote_it():
    assert command(RUN) == "hvdprof tune --np 4 -- python train.py --name 'a b'"


def test_launcher_and_hosts_are_those_of_the_run():
    assert command(RUN, launcher="torchrun").startswith(
        "hvdprof tune --launcher torchrun --np 4 --"
    )
    assert "--hosts h1:2,h2:2 --" in command(RUN, hosts="h1:2,h2:2")


def test_a_command_of_torchrun_says_the_number_of_ranks_itself():
    words = ["hvdprof", "run", "--", "torchrun", "--nproc-per-node", "4", "train.py"]

    assert command(words) == "hvdprof tune -- torchrun --nproc-per-node 4 train.py"


@pytest.mark.parametrize(
    ("words", "script"),
    [
        (["hvdprof", "bench", "--np", "4"], None),
        (["hvdprof", "attach", "runs/a"], OF_SCRIPT),
        (RUN, OF_SCRIPT | {"is_function": True}),
    ],
)
def test_what_tune_cannot_start_has_no_command(words, script):
    assert command(words, script) == ""


def test_an_elastic_job_cannot_be_tuned():
    assert command(RUN, options={"host_discovery_script": "./hosts.sh"}) == ""


NAMES = {"pass_id": "p", "segment": "s"}
STEP_NS, SHARE = 50e6, 0.4
WHOLE = 6_000_000
SCRIPT = {
    "command": ["python", "train.py"],
    "is_function": False,
    "elastic": None,
}


def table(name, *rows):
    return declared_rows(next(one for one in TABLES if one.name == name), *rows)


def finding(ddp, *, settings=None, num_tensors=50, sent_bytes=WHOLE, **tables_of_run):
    """The finding on 20 ms of exposed transfer of 2 ranks that send 6 MB under DDP."""
    key = {"model": "train", "np": 2, "engine": "ddp"}
    no_toggles = {"compression": "none", "reduction": "average"}
    of_launch = {"mode": "throughput", "size": 2, "status": "done", "num_ranks_recorded": 2}
    segments = table(
        "segments",
        NAMES
        | of_launch
        | no_toggles
        | {"model": "train", "engine": "ddp", "num_tensors": num_tensors},
    )
    lost = {"term": "exposed-transfer", "share": SHARE, "time_ns": SHARE * STEP_NS}
    lost |= {"share_low": 0.3, "saved_if_removed_share": SHARE}
    tables = {
        "waterfall": table("waterfall", key | no_toggles | lost),
        "scaling": table(
            "scaling", cell(**key, step_time_median_ns=STEP_NS, sent_bytes=sent_bytes)
        ),
    }
    tables |= tables_of_run
    record = pass_record("p", [segment("s", engine="ddp")], mode="throughput", controller="gloo")
    recorded = manifest(
        passes=[record],
        command=[
            "hvdprof",
            "run",
            "--launcher",
            "torchrun",
            "--np",
            "2",
            "--",
            "python",
            "train.py",
        ],
        settings={"script": SCRIPT, "launcher": "torchrun"} if settings is None else settings,
    )
    given = Evidence(run(manifest=recorded, segments=segments, ddp=ddp), tables)
    (row,) = findings(given).to_dict("records")
    return row


def facts(cap_mb, latency_ms=None, **values):
    times = [] if latency_ms is None else [(1024, int(latency_ms * 1e6)), (2**20, 5_000_000)]
    return DdpFacts(gradient_bytes=WHOLE, bucket_cap_mb=cap_mb, allreduces=times, **values)


def test_a_size_that_divides_the_gradients_into_many_buckets_is_named():
    row = finding(facts(0.01, latency_ms=0.3))

    assert row["id"] == "small-buckets"
    assert (
        "With bucket_cap_mb=0.01 DDP sends 6.00 MB of gradients in about 50 buckets"
        in (row["evidence"])
    )
    assert "of 25 MiB it sends about 2" in row["evidence"]
    assert "An allreduce of 1.02 kB takes 300 µs here" in row["evidence"]
    assert row["action"].startswith("Omit bucket_cap_mb=0.01 or set it to 25.")
    assert "`hvdprof tune --launcher torchrun --np 2 -- python train.py`" in row["action"]


def test_without_a_measured_allreduce_the_number_of_buckets_is_the_evidence():
    row = finding(facts(0.01))

    assert row["id"] == "small-buckets"
    assert "An allreduce of" not in row["evidence"]


@pytest.mark.parametrize(
    "ddp",
    [
        None,
        facts(None),
        facts(25.0),
        facts(2.0),
        facts(0.01, latency_ms=0.01),
        facts(0.01, has_cap_list=True),
    ],
    ids=["unknown", "default", "as the default", "few", "fast", "one size each"],
)
def test_other_buckets_are_not_too_small(ddp):
    row = finding(ddp)

    assert row["id"] == "exposed-transfer"
    assert "no_sync()" in row["action"]
    assert "`hvdprof tune --launcher torchrun --np 2 -- python train.py`" in row["action"]


def test_a_few_large_gradients_are_not_divided():
    assert finding(facts(0.01), num_tensors=4)["id"] == "exposed-transfer"


def test_a_reference_model_names_the_option_of_bench():
    row = finding(None, settings={"script": None})

    assert "`hvdprof bench --engine ddp --fusion-threshold-mb 5`" in row["action"]


TRACES = attached_settings(
    [AttachedFile(kind=AttachedKind.TRACE, given="t", copy="traces/t", rank=0)]
)


@pytest.mark.parametrize(("steps", "is_one"), [((4, 5), True), ((4, 4, 5), False), ((), False)])
def test_traces_show_one_bucket_by_their_allreduces(steps, is_one):
    rows = [NAMES | {"step": step, "collective": "ALLREDUCE"} for step in steps]
    row = finding(None, settings=TRACES, sent_bytes=0, collectives=table("collectives", *rows))

    assert ("DDP sends all gradients in one bucket" in row["evidence"]) == is_one
    assert ("hvdprof tune" in row["action"]) != is_one


def test_traces_get_the_command_that_tunes_the_script_they_are_of():
    row = finding(None, settings=TRACES)

    assert "`hvdprof tune --launcher torchrun --np 2 -- python train.py`" in row["action"]
    assert "hvdprof bench" not in row["action"]


@pytest.mark.heavy
@pytest.mark.parametrize("ddp", [None, facts(None), facts(25.0)])
def test_of_one_bucket_no_size_is_tuned(ddp):
    row = finding(ddp, sent_bytes=2**20)

    assert row["title"] == "Exposed communication of DDP's only bucket"
    assert "DDP sends all gradients (1.05 MB) in one bucket" in row["evidence"]
    assert row["action"] == (
        "Use a larger batch, or accumulate gradients within no_sync(), to send less often."
    )
    assert "tune" in finding(ddp, sent_bytes=2**20 + 1)["action"]


def test_one_bucket_by_a_large_cap_is_said_and_tuned():
    row = finding(facts(25.0), sent_bytes=5 * 2**20)

    assert row["title"] == "Exposed communication of DDP's only bucket"
    assert "tune" in row["action"]


def test_two_buckets_by_a_cap_of_the_script_are_not_one():
    row = finding(facts(0.5), sent_bytes=2**20)

    assert row["title"] == "Exposed communication of DDP's last buckets"


def test_small_buckets_of_little_are_not_tuned_either():
    row = finding(facts(0.01), sent_bytes=2**20)

    assert row["id"] == "small-buckets"
    assert row["action"] == "Omit bucket_cap_mb=0.01 or set it to 25."


def steps_of(passes, rounds, num_steps=6):
    """EVENTS of rank 1 of such steps; the first one has an evaluation before it."""
    key = {"pass_id": "p", "segment": "s", "source": "recorder", "rank": 1, "phase": "part"}
    names = ["forward"] * passes + ["backward"] * (passes + 1) + ["blocked"] * rounds
    rows = [{"step": step, "activity": name} for step in range(num_steps) for name in names]
    rows += [{"step": -1, "activity": "forward"}] * 9 + [{"step": 0, "activity": "forward"}] * 9
    return table("events", *[key | row for row in rows])


@pytest.mark.parametrize(
    ("passes", "rounds", "fix"),
    [
        (1, 1, "use a larger batch, or accumulate gradients within no_sync(), to send less often"),
        (4, 4, "use no_sync() in all but the last of the 4 backward passes of a step"),
        (
            4,
            1,
            "use a larger batch, or accumulate more than 4 batches per step, to send less often",
        ),
        (4, 0, "use a larger batch, or accumulate gradients within no_sync(), to send less often"),
    ],
)
def test_no_sync_is_proposed_only_where_the_steps_do_not_use_it(passes, rounds, fix):
    row = finding(facts(25), events=steps_of(passes, rounds))
    assert row["id"] == "exposed-transfer"
    assert row["fix"] == fix
    assert ("If the 4 backward passes" in row["action"]) == (passes == rounds == 4)
