import pytest

from hvdprof.model.cell_key import cell_label, setting_name, toggles_beside

CELL = {"model": "mnist", "np": 2, "engine": "horovod"}
OFF = {"compression": "none", "reduction": "average"}
BOTH = {"compression": "fp16", "reduction": "adasum"}
UNKNOWN = {"compression": "unknown", "reduction": "unknown"}


@pytest.mark.parametrize(
    ("engine", "toggles", "named", "labelled"),
    [
        ("horovod", OFF, "Horovod", "mnist on 2 ranks"),
        ("horovod", OFF | {"compression": "fp16"}, "fp16", "mnist on 2 ranks, fp16"),
        ("horovod", OFF | {"reduction": "adasum"}, "Adasum", "mnist on 2 ranks, Adasum"),
        ("horovod", BOTH, "fp16 Adasum", "mnist on 2 ranks, fp16 Adasum"),
        ("horovod", UNKNOWN, "toggles unknown", "mnist on 2 ranks"),
        ("torch", OFF, "plain torch", "mnist on 2 ranks, plain torch"),
        ("ddp", OFF, "DDP", "mnist on 2 ranks under DDP"),
        ("ddp", BOTH, "DDP fp16 Adasum", "mnist on 2 ranks under DDP, fp16 Adasum"),
        ("ddp", UNKNOWN, "DDP toggles unknown", "mnist on 2 ranks under DDP"),
    ],
)
def test_a_cell_is_named_by_what_differs_from_the_defaults(engine, toggles, named, labelled):
    row = CELL | toggles | {"engine": engine}

    assert setting_name(engine, *toggles.values()) == named
    assert cell_label(row) == labelled
    assert labelled.endswith(toggles_beside(row))
