"""A run's step graph as Chakra files, read back and replayed."""

import pytest

pytest.importorskip("google.protobuf", reason="the extra chakra is not installed")

from hvdprof import api
from hvdprof.errors import StorageError, UnreadableInputError
from hvdprof.report.chakra_trace import write_chakra
from tests.builders.chakra_files import attributes, read_chakra
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts, write_run

COMP_NODE, COMM_COLL_NODE = 4, 7
STEP_MS = 15.0


@pytest.fixture
def run(tmp_path):
    def segment(**values):
        return SegmentSpec(num_steps=5, parts_ms=typical_parts(12.0, 3.0), **values)

    folder = write_run(
        tmp_path / "run",
        [
            PassSpec(size=2, segments=[segment()]),
            PassSpec(size=2, mode="trace", segments=[segment(timeline=True)]),
        ],
    )
    return api.load_run(folder)


def _longest_ms(nodes):
    ends = {}
    for node in nodes:
        ends[node.id] = node.duration_micros + max((ends[one] for one in node.data_deps), default=0)
    return max(ends.values()) / 1e3


@pytest.mark.heavy
def test_every_rank_has_a_file_that_reads_back(run, tmp_path):
    paths = write_chakra(run, tmp_path / "out" / "et", None, None, overwrite=False)
    assert [path.name for path in paths] == ["et.0.et", "et.1.et"]
    files = [read_chakra(path) for path in paths]
    assert [file.about["rank"] for file in files] == ["0", "1"]
    assert files[0].about["pass"] == "02-np2-trace-r1"
    assert files[0].about["np"] == "2"
    for file in files:
        ids = [node.id for node in file.nodes]
        assert ids == list(range(len(ids)))
        assert all(one < node.id for node in file.nodes for one in node.data_deps)


@pytest.mark.heavy
def test_collectives_carry_the_bytes_of_their_gradients(run, tmp_path):
    paths = write_chakra(run, tmp_path / "et", None, None, overwrite=False)
    executed = run.executions[run.executions["step"] >= 0]
    steps = run.steps[(run.steps["pass_id"] == "02-np2-trace-r1") & ~run.steps["warmup"]]
    measured = executed[executed["step"].isin(set(steps["step"]))].sort_values("start_ns")
    assert len(measured)
    for path in paths:
        nodes = read_chakra(path).nodes
        collectives = [node for node in nodes if node.type == COMM_COLL_NODE]
        assert [attributes(node)["comm_size"] for node in collectives] == list(
            measured["size_bytes"]
        )
        # ALL_REDUCE, and on the accelerator: ASTRA-sim refuses collectives on the CPU.
        assert {attributes(node)["comm_type"] for node in collectives} == {0}
        assert not any(attributes(node)["is_cpu_op"] for node in collectives)
        assert {node.type for node in nodes} == {COMP_NODE, COMM_COLL_NODE}


@pytest.mark.heavy
def test_the_longest_path_of_the_graph_is_the_measured_time(run, tmp_path):
    path, _ = write_chakra(run, tmp_path / "et", None, None, overwrite=False)
    steps = run.steps[(run.steps["pass_id"] == "02-np2-trace-r1") & (run.steps["rank"] == 0)]
    measured_ms = steps.loc[~steps["warmup"], "dur_ns"].sum() / 1e6
    nodes = read_chakra(path).nodes
    assert _longest_ms(nodes) == pytest.approx(measured_ms, rel=0.02)
    # A collective of no length leaves what the ranks do themselves.
    for node in nodes:
        if node.type == COMM_COLL_NODE:
            node.duration_micros = 0
    own_ms = measured_ms - steps.loc[~steps["warmup"], "blocked_ns"].sum() / 1e6
    assert _longest_ms(nodes) == pytest.approx(own_ms, rel=0.05)


@pytest.mark.heavy
def test_a_pass_without_collectives_says_what_to_choose(run, tmp_path):
    with pytest.raises(UnreadableInputError, match="no measured step with collectives") as raised:
        write_chakra(run, tmp_path / "et", "01-np2-throughput-r1", None, overwrite=False)
    assert "--pass" in raised.value.hint


@pytest.mark.heavy
def test_no_file_is_replaced_and_none_is_written_beside_it(run, tmp_path):
    (tmp_path / "et.1.et").write_text("mine", encoding="utf-8")
    with pytest.raises(StorageError, match="not overwritten"):
        write_chakra(run, tmp_path / "et", None, None, overwrite=False)
    assert not (tmp_path / "et.0.et").exists()
    write_chakra(run, tmp_path / "et", None, None, overwrite=True)
    assert read_chakra(tmp_path / "et.1.et").nodes
