"""Variables that change arguments of DDP."""

import pytest

from hvdprof.rundir.json_codec import read_json, to_text
from hvdprof.rundir.launch_format import (
    BUCKET_CAP,
    BUCKET_VIEW,
    FIND_UNUSED,
    STATIC_GRAPH,
    DdpFacts,
    ddp_argument,
    ddp_call,
)


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        (BUCKET_CAP, "25", 25),
        (BUCKET_CAP, "0.001", 0.001),
        (BUCKET_CAP, "default", None),
        (STATIC_GRAPH, "1", True),
        (FIND_UNUSED, "0", False),
    ],
)
def test_a_variable_is_the_value_of_an_argument(name, text, value) -> None:
    found = ddp_argument(name, text)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("name", "text"),
    [(BUCKET_CAP, one) for one in ("", "0", "-1", "nan", "inf", "25MB")]
    + [(BUCKET_VIEW, one) for one in ("", "true", "2")],
)
def test_other_values_are_refused(name, text) -> None:
    with pytest.raises(ValueError, match=f"{name}={text} is n"):
        ddp_argument(name, text)


def test_the_call_is_what_a_script_writes() -> None:
    assert ddp_call({"OMP_NUM_THREADS": "1"}) == ""
    assert ddp_call({STATIC_GRAPH: "1", BUCKET_CAP: "25", "OMP_NUM_THREADS": "1"}) == (
        "DistributedDataParallel(..., bucket_cap_mb=25, static_graph=True)"
    )
    assert ddp_call({BUCKET_CAP: "default", BUCKET_VIEW: "1"}) == (
        "DistributedDataParallel(..., gradient_as_bucket_view=True) without bucket_cap_mb"
    )


def test_facts_are_read_as_they_were_written(tmp_path) -> None:
    facts = DdpFacts(gradient_bytes=8, bucket_cap_mb=0.5, allreduces=[(4, 100), (8, 200)])
    (tmp_path / "ddp.json").write_text(to_text(facts))
    assert read_json(DdpFacts, tmp_path / "ddp.json") == facts
