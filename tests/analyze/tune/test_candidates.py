"""Every rule has a run on which it proposes, and one on which it must not."""

import pytest

from hvdprof.analyze.tune.candidates import VARIABLES, proposals
from hvdprof.analyze.tune.tuned_job import Means, tuned_job
from hvdprof.errors import UsageError
from tests.builders.finished_analysis import analysis, cell
from tests.builders.tuned_jobs import MB, job


def names(given):
    found = proposals(given).candidates
    # `--only` is checked against this list before there is a run.
    assert {variable for one in found for variable in one.environment} <= set(VARIABLES)
    return [one.name for one in found]


def named(given, name):
    return next(one for one in proposals(given).candidates if one.name == name)


def untried(given):
    return {one.knob: one.reason for one in proposals(given).untried}


def values(given, variable):
    return [one.partition("=")[2] for one in names(given) if one.startswith(f"{variable}=")]


CYCLE, FUSION, CACHE = "HOROVOD_CYCLE_TIME", "HOROVOD_FUSION_THRESHOLD", "HOROVOD_CACHE_CAPACITY"
THREADS, AFFINITY = "OMP_NUM_THREADS", "HOROVOD_THREAD_AFFINITY"
HIERARCHICAL = "HOROVOD_HIERARCHICAL_ALLREDUCE"


# ---- cycle


def test_a_cycle_that_the_user_set_is_always_undone() -> None:
    given = job(environment={CYCLE: "50"}, findings=["cycle-too-long"], blocked_share=0.0)
    first = named(given, f"{CYCLE}=1")
    assert first.environment == {CYCLE: "1"}
    assert first.finding == "cycle-too-long"
    assert first.why == "The cycle is set to 50 ms; Horovod's default is 1 ms."


@pytest.mark.heavy
def test_the_default_cycle_is_not_tried_against_itself() -> None:
    assert "1" not in values(job(), CYCLE)
    assert "1" not in values(job(environment={CYCLE: "1.0"}), CYCLE)


def test_one_collective_per_step_asks_for_shorter_cycles() -> None:
    assert values(job(sizes=[40 * MB]), CYCLE) == ["0.1", "0.5"]


@pytest.mark.heavy
def test_many_collectives_ask_for_longer_cycles_up_to_a_quarter_of_the_step() -> None:
    many = [MB] * 12
    assert values(job(sizes=many), CYCLE) == ["2.5", "5"]
    assert values(job(sizes=many, step_time_median_ns=100e6), CYCLE) == ["2.5", "5", "10"]


def test_a_cycle_that_is_no_number_is_what_horovod_reads() -> None:
    # strtod gives 0: the loop does not sleep.
    assert values(job(environment={CYCLE: "fast"}, sizes=[MB] * 12), CYCLE)[0] == "1"


# ---- fusion


@pytest.mark.parametrize("text", ["0", "65536"])
def test_a_small_fusion_buffer_is_undone(text) -> None:
    assert "134217728" in values(job(environment={FUSION: text}, sizes=[MB] * 12), FUSION)


def test_a_buffer_that_holds_all_gradients_anyway_is_not_tried() -> None:
    given = job(environment={FUSION: str(64 * MB)}, sizes=[MB], sent_bytes=2 * MB)
    assert values(given, FUSION) == []
    assert "changes nothing" in untried(given)[FUSION]


def test_a_large_collective_is_cut_into_pieces() -> None:
    assert values(job(sizes=[40 * MB]), FUSION) == [str(16 * MB), str(8 * MB), str(4 * MB)]


def test_small_collectives_are_not_cut() -> None:
    assert values(job(sizes=[MB]), FUSION) == []


def test_more_gradients_than_the_buffer_holds_ask_for_a_larger_one() -> None:
    given = job(sizes=[128 * MB, 100 * MB], sent_bytes=228 * MB)
    assert values(given, FUSION)[0] == str(256 * MB)


# ---- cache


@pytest.mark.heavy
def test_a_cache_that_holds_too_few_responses_is_enlarged() -> None:
    assert values(job(environment={CACHE: "0"}, findings=["cache-off"]), CACHE) == ["1024"]
    assert values(job(num_tensors=1500), CACHE) == ["4096"]
    assert values(job(findings=["cache-evictions"]), CACHE) == ["4096"]
    assert values(job(), CACHE) == []


# ---- hierarchical, switches

TWO_HOSTS = ("node1", "node1", "node2", "node2")


@pytest.mark.heavy
def test_hierarchical_allreduce_needs_gpus_and_several_hosts() -> None:
    assert values(job(hosts=TWO_HOSTS, cuda=True), HIERARCHICAL) == ["1"]
    assert values(job(hosts=TWO_HOSTS), HIERARCHICAL) == []
    assert values(job(cuda=True), HIERARCHICAL) == []
    assert values(job(hosts=("node1", "node2"), cuda=True), HIERARCHICAL) == []


@pytest.mark.heavy
def test_hierarchical_allreduce_that_is_on_is_undone_or_has_no_effect() -> None:
    on = {HIERARCHICAL: "1"}
    assert values(job(hosts=TWO_HOSTS, cuda=True, environment=on), HIERARCHICAL) == ["0"]
    assert untried(job(environment=on))[HIERARCHICAL] == "Horovod switches it off without GPUs."
    assert untried(job(environment=on, cuda=True))[HIERARCHICAL] == (
        "Horovod switches it off on one host."
    )


@pytest.mark.heavy
def test_switches_of_nccl_are_undone_on_gpus_alone() -> None:
    off = {"NCCL_P2P_DISABLE": "1", "NCCL_IB_DISABLE": "1"}
    assert "NCCL_P2P_DISABLE=0" in names(job(environment=off, cuda=True))
    assert "NCCL_IB_DISABLE=0" not in names(job(environment=off, cuda=True))
    assert "NCCL_IB_DISABLE=0" in names(job(environment=off, cuda=True, hosts=TWO_HOSTS))
    assert "NCCL_P2P_DISABLE=0" not in names(job(environment=off))


def test_groups_without_fusion_are_fused_again() -> None:
    given = job(environment={"HOROVOD_DISABLE_GROUP_FUSION": "1"})
    assert named(given, "HOROVOD_DISABLE_GROUP_FUSION=0").environment == {
        "HOROVOD_DISABLE_GROUP_FUSION": "0"
    }


# ---- threads


@pytest.mark.heavy
def test_too_many_threads_become_the_fair_share_and_one_less() -> None:
    given = job(environment={THREADS: "8"}, threads=8)
    assert values(given, THREADS) == ["2", "1"]
    assert named(given, f"{THREADS}=2").environment == {THREADS: "2"}
    assert "8 threads each on 4 cores: more threads than cores" in named(given, f"{THREADS}=2").why


def test_torch_takes_no_more_threads_than_cores() -> None:
    assert values(job(environment={THREADS: "8"}, threads=2, cores=2), THREADS) == ["1"]


def test_idle_cores_are_given_to_threads() -> None:
    assert values(job(environment={THREADS: "1"}, cores=16), THREADS) == ["8", "7", "4"]


def test_one_thread_for_each_core_is_left_alone() -> None:
    assert values(job(environment={THREADS: "1"}, cores=2), THREADS) == []


def test_threads_of_mkl_are_changed_too() -> None:
    given = job(environment={THREADS: "8", "MKL_NUM_THREADS": "8"}, threads=8)
    assert named(given, f"{THREADS}=2").environment == {THREADS: "2", "MKL_NUM_THREADS": "2"}


@pytest.mark.heavy
def test_threads_that_hvdprof_sets_are_an_option() -> None:
    for given in (job(sets_threads=True, threads=8), job(bench=True, threads=8)):
        assert named(given, f"{THREADS}=2").options == {"num_threads": 2}


@pytest.mark.heavy
def test_threads_that_the_script_sets_are_not_tried() -> None:
    for given in (job(threads=3), job(environment={THREADS: "1"}, threads=8)):
        assert values(given, THREADS) == []
        assert "The script sets its number of threads" in untried(given)[THREADS]


@pytest.mark.heavy
def test_half_of_the_cores_may_be_hyper_threads_unless_the_script_sets_threads() -> None:
    assert THREADS not in untried(job(cores=4, threads=2))
    assert THREADS in untried(job(cores=4, threads=2, text="torch.set_num_threads(2)"))


@pytest.mark.heavy
def test_gpus_and_unknown_threads_have_no_candidates() -> None:
    assert values(job(threads=8, cuda=True), THREADS) == []
    assert values(job(threads=-1), THREADS) == []


@pytest.mark.heavy
def test_spinning_threads_are_put_to_sleep() -> None:
    spinning = {"OMP_WAIT_POLICY": "ACTIVE", THREADS: "2"}
    assert "OMP_WAIT_POLICY=passive" in names(job(environment=spinning, threads=2))
    assert "OMP_WAIT_POLICY=passive" not in names(job(environment=spinning, threads=1))


@pytest.mark.heavy
def test_bound_threads_are_freed_where_ranks_share_a_host() -> None:
    bound = {"OMP_PROC_BIND": "close", THREADS: "1"}
    assert named(job(environment=bound), "OMP_PROC_BIND=false").environment == {
        "OMP_PROC_BIND": "false"
    }
    # libgomp's own list ends as well.
    assert "OMP_PROC_BIND=false" in names(job(environment={"GOMP_CPU_AFFINITY": "0-1"}))
    assert "OMP_PROC_BIND=false" not in names(job(environment={"OMP_PROC_BIND": "FALSE"}))
    assert "OMP_PROC_BIND=false" not in names(job(environment=bound, hosts=("node1", "node2")))
    assert "OMP_PROC_BIND=false" not in names(job(environment=bound, cuda=True))


# ---- affinity, controller, hosts


@pytest.mark.heavy
def test_horovods_thread_gets_a_spare_core() -> None:
    assert values(job(environment={THREADS: "1"}), AFFINITY) == ["2,3"]
    assert values(job(environment={THREADS: "1"}, cores=3), AFFINITY) == []
    assert values(job(environment={THREADS: "1"}, cuda=True), AFFINITY) == []


@pytest.mark.parametrize("part", [{"machine_cores": 16}, {"affinity_cores": 3}])
def test_on_a_part_of_the_cores_their_ids_are_unknown(part) -> None:
    given = job(environment={THREADS: "1"}, **part)
    assert values(given, AFFINITY) == []
    assert "a part of those of the machine" in untried(given)[AFFINITY]


def test_a_given_affinity_is_undone() -> None:
    assert named(job(environment={AFFINITY: "0,0"}), f"{AFFINITY}=").environment == {AFFINITY: ""}


@pytest.mark.heavy
def test_the_other_controller_is_tried_where_horovod_has_it() -> None:
    assert named(job(), "controller gloo").options == {"controller": "gloo"}
    assert named(job(controller="gloo"), "controller mpi").options == {"controller": "mpi"}
    assert untried(job(controllers=("mpi",)))["controller"] == "Horovod was built without gloo."


def test_a_given_launcher_decides_the_controller() -> None:
    given = job(options={"launcher": "srun"})
    assert "controller gloo" not in names(given)
    assert "--launcher" in untried(given)["controller"]


@pytest.mark.heavy
def test_ranks_are_spread_or_packed_over_hosts_with_free_slots() -> None:
    assert "hosts h1:1,h2:1" in names(job(options={"hosts": "h1:4,h2:4"}))
    assert "hosts h2:2" in names(job(options={"hosts": "h1:1,h2:4"}))
    assert not [one for one in names(job(options={"hosts": "h1:1,h2:1"})) if "hosts" in one]
    assert not [one for one in names(job()) if "hosts" in one]


# ---- the script's own


@pytest.mark.heavy
def test_fp16_is_an_argument_of_the_script() -> None:
    text = "parser.add_argument('--fp16-allreduce', action='store_true')"
    given = job(hosts=TWO_HOSTS, text=text)
    found = named(given, "--fp16-allreduce")
    assert found.arguments == ("--fp16-allreduce",)
    assert found.changes_numerics
    on = job(hosts=TWO_HOSTS, text=text, command=("python", "train.py", "--fp16-allreduce"))
    assert "--fp16-allreduce" not in names(on)


@pytest.mark.heavy
def test_of_a_script_without_the_argument_the_note_says_what_to_change() -> None:
    given = job(hosts=TWO_HOSTS, text="hvd.DistributedOptimizer(opt)")
    assert untried(given)["fp16"] == (
        "The script takes no argument for it; change compression=hvd.Compression.fp16 in its code."
    )
    assert "is unknown" in untried(job(hosts=TWO_HOSTS))["fp16"]


@pytest.mark.heavy
def test_fp16_is_not_tried_where_it_cannot_pay() -> None:
    assert "casts cost more" in untried(job())["fp16"]
    assert "fp16" not in names(job(bench=True, hosts=TWO_HOSTS, findings=["fp16-costs"]))
    assert "fp16" not in untried(job(exposed=0.01))


def test_fp16_of_reference_models_is_an_option() -> None:
    assert named(job(bench=True, hosts=TWO_HOSTS), "fp16").options == {"compression": "fp16"}


@pytest.mark.heavy
def test_accumulation_multiplies_what_the_script_has() -> None:
    text = 'add_argument("--batches-per-allreduce", type=int)'
    given = job(text=text, command=("python", "train.py", "--batches-per-allreduce=2"))
    found = [one for one in proposals(given).candidates if one.changes_numerics]
    assert [one.arguments for one in found] == [
        ("--batches-per-allreduce", "4"),
        ("--batches-per-allreduce", "8"),
    ]
    assert "takes no argument" in untried(job(text="x = 1"))["backward_passes_per_step"]
    assert "backward_passes_per_step" not in untried(job(exposed=0.04))


@pytest.mark.parametrize(
    ("present", "reason"),
    [
        ({"options": {"batch_size": 32}}, "With --batch-size the samples per step are fixed"),
        ({"input_bound": 0.0}, "Without a data loader"),
    ],
)
def test_accumulation_is_not_tried_where_its_samples_do_not_count(present, reason) -> None:
    given = job(text='add_argument("--batches-per-allreduce", type=int)', **present)
    assert not [one for one in proposals(given).candidates if one.changes_numerics]
    assert untried(given)["backward_passes_per_step"].startswith(reason)


def test_accumulation_is_tried_where_a_data_loader_counts_its_samples() -> None:
    given = job(text='add_argument("--batches-per-allreduce", type=int)', input_bound=1e6)
    assert "--batches-per-allreduce 2" in names(given)


# ---- as a whole


@pytest.mark.heavy
def test_horovods_settings_are_options_of_bench_and_variables_of_scripts() -> None:
    bench, script = (
        named(job(environment={FUSION: "0"}, sizes=[MB] * 9, bench=bench), f"{FUSION}=134217728")
        for bench in (True, False)
    )
    assert (bench.options, bench.environment) == ({"fusion_threshold_mb": 128}, {})
    assert (script.options, script.environment) == ({}, {FUSION: "134217728"})


def test_a_job_that_hardly_communicates_has_no_candidates() -> None:
    given = job(environment={THREADS: "2"}, threads=2, sizes=[], blocked_share=0.01, exposed=0.01)
    assert names(given) == [f"{THREADS}=1"]
    assert untried(given)["communication"] == (
        "Communication takes 1.0 % of the step, so its settings cannot save 2 %."
    )


def test_collectives_under_backward_count_where_they_take_the_ranks_cores() -> None:
    few = {"blocked_share": 0.0, "exposed": 0.0}
    assert job(**few).communication_share == pytest.approx(1 / 31)
    assert job(cuda=True, **few).communication_share == 0.0


def test_one_rank_has_no_settings_of_horovod() -> None:
    given = job(hosts=("node1",), environment={CYCLE: "50", FUSION: "0", THREADS: "4"}, threads=4)
    assert names(given) == [f"{THREADS}=3"]


def test_one_cell_is_tuned_at_a_time() -> None:
    two = analysis([cell(), cell(np=4), cell(model="vgg16", np=4)])
    assert tuned_job(two, Means(), margin=0.02, num_ranks=2).num_ranks == 2
    with pytest.raises(UsageError, match="np=4: the run holds 2 cells"):
        tuned_job(two, Means(), margin=0.02)
