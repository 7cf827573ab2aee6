"""DDP beside Horovod in every analysis: the engine is one more toggle of a cell."""

import numpy as np
import pytest

from hvdprof.model.run import RunAnalysis
from tests.builders.analysis import analysis_of, table_text
from tests.builders.run_directory import PassSpec, SegmentSpec, typical_parts

CELL = ("model", "np", "engine", "compression")


def both_engines(*, late_ms: float = 0.0, with_torch: bool = True) -> list[PassSpec]:
    """Three repeats of a model on 1 and 2 ranks; DDP waits 1 ms and Horovod 3 ms per step.

    Launches differ by 1 %, both engines of a repeat alike. Rank 1 is late in forward under DDP.
    """
    passes = []
    for repeat, factor in enumerate((0.99, 1.0, 1.01), start=1):
        for size, engine, blocked_ms in (
            (1, "torch", 0.0),
            (1, "horovod", 0.0),
            (1, "ddp", 0.0),
            (2, "horovod", 3.0),
            (2, "ddp", 1.0),
        ):
            if engine == "torch" and not with_torch:
                continue
            late = late_ms if engine == "ddp" and size == 2 else 0.0
            rng = np.random.default_rng(repeat)
            noise = rng.normal(1.0, 0.002, (size, 62))
            parts = {
                part: np.asarray(length) * factor * noise
                for part, length in typical_parts(10.0 + blocked_ms, blocked_ms).items()
            }
            extra = np.zeros((size, 62))
            extra[-1, 2:] = late
            parts["forward"] = parts["forward"] + extra
            parts["blocked"] = parts["blocked"] + extra.max() - extra if late else parts["blocked"]
            segment = SegmentSpec(engine=engine, parts_ms=parts)
            passes.append(PassSpec(size=size, repeat=repeat, segments=[segment]))
    return passes


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> RunAnalysis:
    return analysis_of(tmp_path_factory.mktemp("run"), both_engines())


@pytest.mark.slow
def test_both_engines_refer_to_the_same_baseline(compared):
    columns = (*CELL, "efficiency", "baseline", "blocked_share")
    assert table_text(compared.scaling, columns, digits=2) == (
        "mnist 1 torch none 1.00 torch np=1 nan\n"
        "mnist 1 horovod none 1.00 torch np=1 0.00\n"
        "mnist 1 ddp none 1.00 torch np=1 0.00\n"
        "mnist 2 horovod none 0.77 torch np=1 0.23\n"
        "mnist 2 ddp none 0.91 torch np=1 0.09"
    )


@pytest.mark.slow
def test_without_plain_torch_horovod_is_the_baseline_of_both(tmp_path):
    found = analysis_of(tmp_path, both_engines(with_torch=False))
    assert set(found.scaling["baseline"]) == {"horovod np=1"}


@pytest.mark.heavy
def test_ddp_alone_is_its_own_baseline_and_what_the_verdict_is_about(tmp_path):
    passes = [one for one in both_engines() if one.segments[0].engine == "ddp"]
    found = analysis_of(tmp_path, passes)
    assert set(found.scaling["baseline"]) == {"ddp np=1"}
    assert found.verdict.engine == "ddp"
    assert found.verdict.sentence.startswith("mnist on 2 ranks under DDP: 90.")


@pytest.mark.slow
def test_the_verdict_is_about_horovod_where_both_were_measured(compared):
    assert compared.verdict.engine == "horovod"
    assert compared.verdict.sentence.startswith("mnist on 2 ranks: 76.")
    assert compared.verdict.biggest_loss == "exposed transfer"


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["losses", "waterfall", "pop", "ceilings"])
def test_every_table_of_cells_separates_the_engines(compared, name):
    table = compared.table(name)
    of_two = table[table["np"] == 2]
    assert list(dict.fromkeys(of_two["engine"])) == ["horovod", "ddp"]
    sizes = of_two.groupby("engine").size()
    assert sizes["horovod"] == sizes["ddp"]


@pytest.mark.heavy
def test_the_terms_of_each_engine_sum_to_what_it_lacks(compared):
    shares = compared.table("waterfall").groupby(["np", "engine"])["share"].sum()
    reached = compared.scaling.set_index(["np", "engine"])["efficiency"]
    for key, share in shares.items():
        assert share == pytest.approx(1 - reached[key], abs=1e-9)


@pytest.mark.heavy
def test_ddp_is_compared_with_horovod_as_a_toggle(compared):
    # On one rank nothing is exchanged, so there is nothing to compare.
    (row,) = compared.table("toggles").to_dict("records")
    assert row["np"] == 2
    assert (row["engine"], row["toggle"], row["num_pairs"]) == ("ddp", "ddp", 3)
    assert row["speedup"] == pytest.approx(13 / 11, rel=0.01)
    assert row["verdict"] == "pays"
    assert row["blocked_saved_ns"] == pytest.approx(2e6, rel=0.05)


@pytest.mark.slow
def test_fp16_under_ddp_is_compared_with_ddp(tmp_path):
    passes = [
        PassSpec(
            size=2,
            repeat=repeat,
            segments=[
                SegmentSpec(engine=engine, compression=compression, parts_ms=typical_parts(ms))
            ],
        )
        for repeat in (1, 2, 3)
        for engine, compression, ms in (
            ("horovod", "none", 10.0),
            ("horovod", "fp16", 8.0),
            ("ddp", "none", 9.0),
            ("ddp", "fp16", 12.0),
        )
    ]
    found = analysis_of(tmp_path, passes).table("toggles")
    assert table_text(found, ("engine", "toggle", "speedup"), digits=2) == (
        "horovod fp16 1.25\nddp ddp 1.11\nddp fp16 0.75"
    )


@pytest.mark.slow
def test_a_straggler_under_ddp_is_named_without_horovod(tmp_path):
    found = analysis_of(tmp_path, both_engines(late_ms=4.0)).findings
    late = found[found["id"] == "persistent-straggler"]
    assert late[["subject", "model", "np", "engine"]].to_numpy().tolist() == [
        ["rank 1", "mnist", 2, "ddp"]
    ]
    row = late.iloc[0]
    assert row["title"] == "Straggler: rank 1, forward phase"
    assert row["evidence"].startswith("mnist on 2 ranks under DDP: the other ranks wait for rank 1")


@pytest.mark.heavy
def test_exposed_communication_of_ddp_is_not_fixed_by_horovod_settings(tmp_path):
    passes = [one for one in both_engines() if one.segments[0].engine != "horovod"]
    found = analysis_of(tmp_path, passes).findings
    (row,) = found[found["id"] == "exposed-transfer"].to_dict("records")
    assert row["engine"] == "ddp"
    assert "no_sync()" in row["action"]
    assert "HOROVOD" not in row["action"]
