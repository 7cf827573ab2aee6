from dataclasses import replace
from typing import Any

import pytest

from hvdprof.analyze.predict.recorded_buckets import recorded_buckets
from hvdprof.model.run import Run
from hvdprof.rundir.launch_format import DdpFacts
from tests.builders.traced_run import traced_run

MIB = 2**20
DEFAULT = (MIB, 25 * MIB)
BENCH: dict[str, Any] = {"sizes": [1, 2], "script": None}
SCRIPT: dict[str, Any] = {"script": {"command": ["python", "train.py"]}}


def _run(settings: dict[str, Any], cap: float | None, ddp: DdpFacts | None) -> Run:
    run, options = traced_run(), {"fusion_threshold_mb": cap}
    manifest = replace(run.manifest, settings=settings, options=options)
    return replace(run, manifest=manifest, ddp=ddp)


@pytest.mark.parametrize(
    ("settings", "cap", "ddp", "limits", "said"),
    [
        (BENCH, 8, None, (8 * MIB,), "their recorded size of 8 MiB"),
        (BENCH, None, None, DEFAULT, "their recorded sizes: DDP's default"),
        (
            SCRIPT,
            None,
            DdpFacts(gradient_bytes=8, bucket_cap_mb=0.5),
            (MIB // 2,),
            "size of 0.5 MiB",
        ),
        (SCRIPT, None, DdpFacts(gradient_bytes=8), DEFAULT, "their recorded sizes: DDP's default"),
        (
            SCRIPT,
            None,
            DdpFacts(gradient_bytes=8, has_cap_list=True),
            DEFAULT,
            "size for each bucket",
        ),
        (SCRIPT, None, None, DEFAULT, "are not recorded"),
        ({}, None, None, DEFAULT, "are not recorded"),
    ],
)
def test_the_limits_are_those_of_the_run(
    settings: dict[str, Any],
    cap: float | None,
    ddp: DdpFacts | None,
    limits: tuple[int, ...],
    said: str,
) -> None:
    found, sentence = recorded_buckets(_run(settings, cap, ddp))

    assert found == limits
    assert said in sentence
