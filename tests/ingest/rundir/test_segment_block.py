"""The engine of launches that the launcher of DDP has started."""

import pandas as pd

from hvdprof.ingest.rundir.segment_block import with_seen_engines


def segment(pass_id: str, engine: str = "ddp", model: str = "train") -> dict[str, object]:
    return {"pass_id": pass_id, "segment": "main", "engine": engine, "model": model}


def waits(pass_id: str, *kinds: str) -> dict[str, object]:
    return {"pass_id": pass_id, "segment": "main", "kind": pd.Categorical(list(kinds))}


def engines(segments: list[dict[str, object]], *pieces: dict[str, object]) -> list[object]:
    return [block["engine"] for block in with_seen_engines(segments, pieces)]


def test_a_model_whose_ranks_gather_parameters_is_one_of_fsdp_at_every_size() -> None:
    segments = [segment("np1"), segment("np2"), segment("np2", model="other")]

    found = engines(segments, waits("np2", "user", "unshard_forward"))

    # Of both models of the pass, since they share its segment id; one rank alone gathers nothing.
    assert found == ["fsdp", "fsdp", "fsdp"]


def test_a_loop_with_collectives_of_its_own_alone_has_no_engine_of_ddp() -> None:
    segments = [segment("np1"), segment("np2"), segment("np2", model="other")]
    segments[2]["segment"] = "second"

    found = engines(segments, waits("np1", "user"), waits("np2", "user"))

    assert found == ["collectives", "collectives", "ddp"]


def test_other_waits_and_engines_stay_what_they_are() -> None:
    assert engines([segment("np2")], waits("np2", "user", "grad_reduce")) == ["ddp"]
    other = [segment("np2", "horovod"), segment("np1", "torch")]
    assert engines(other, waits("np2", "unshard_forward")) == ["horovod", "torch"]
    assert engines([segment("np2")], waits("np4", "unshard_forward")) == ["ddp"]
