import json

import pytest

from hvdprof.api import load_run
from hvdprof.errors import UnreadableInputError, UsageError
from hvdprof.report.flame_graph import SCHEMA, flame_samples, write_flames
from hvdprof.report.format_names import TraceFormat
from tests.builders.analysis import sweep
from tests.builders.run_directory import write_run
from tests.builders.sampled_lines import with_samples


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Three launches of one and of two ranks; a worker of rank 0 decodes images."""
    loaded = load_run(write_run(tmp_path_factory.mktemp("run"), sweep({1: 50.0, 2: 60.0})))
    line = ("/home/user/data;set.py", 7, "Data.__getitem__")
    return with_samples(loaded, workers={0: [(line, "PIL/Image.py decode", 12)]})


def written(run, folder, format_):
    write_flames(run, folder / "flames", format_)
    return (folder / "flames").read_text(encoding="utf-8")


def test_folded_stacks_are_as_flamegraph_reads_them(run, tmp_path):
    samples = flame_samples(run)
    lines = written(run, tmp_path, TraceFormat.FOLDED).splitlines()
    counts = [line.rpartition(" ") for line in lines]
    assert all(count.isdigit() for *_, count in counts)
    assert sum(int(count) for *_, count in counts) == samples["samples"].sum()
    stack = "rank 0;DataLoader workers;data,set.py:7 (Data.__getitem__);PIL/Image.py decode 12"
    assert stack in lines
    assert any(line.startswith("rank 1;backward;train.py:32 (main) ") for line in lines)


def test_speedscope_has_the_fields_of_its_schema(run, tmp_path):
    profile = json.loads(written(run, tmp_path, TraceFormat.SPEEDSCOPE))
    assert profile["$schema"] == SCHEMA
    frames = profile["shared"]["frames"]
    assert all(set(frame) <= {"name", "file", "line", "col"} and frame["name"] for frame in frames)
    assert {"name": "train.py:32 (main)", "file": "/home/user/train.py", "line": 32} in frames
    assert [one["name"] for one in profile["profiles"]] == ["rank 0", "rank 1"]
    for one in profile["profiles"]:
        assert (one["type"], one["unit"], one["startValue"]) == ("sampled", "none", 0)
        assert one["endValue"] == sum(one["weights"])
        assert len(one["samples"]) == len(one["weights"])
        assert all(0 <= place < len(frames) for stack in one["samples"] for place in stack)


def test_a_pass_is_chosen(run):
    whole = set(run.segments["pass_id"])
    of_one = flame_samples(run, next(name for name in whole if "np1" in name))
    assert set(of_one["rank"]) == {0}
    assert set(flame_samples(run)["rank"]) == {0, 1}
    with pytest.raises(UsageError, match="No samples of pass 99"):
        flame_samples(run, "99")
    with pytest.raises(UsageError, match="with model other"):
        flame_samples(run, model="other")


def test_a_run_without_samples_says_so(tmp_path):
    run = load_run(write_run(tmp_path, sweep({1: 50.0})))
    with pytest.raises(UnreadableInputError, match="holds no samples"):
        flame_samples(run)
