import pytest

from hvdprof.analyze.steps.baseline import baseline_name, baselines
from hvdprof.analyze.steps.cells import CellTime
from tests.builders.cell_times import cell_time

TORCH = cell_time(np=1, engine="torch")
HOROVOD_1 = cell_time(np=1)
DDP_2 = cell_time(np=2, engine="ddp")
HOROVOD_2 = cell_time(np=2)
HOROVOD_4 = cell_time(np=4)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ([HOROVOD_4, HOROVOD_1, TORCH], TORCH),
        ([HOROVOD_4, HOROVOD_1, HOROVOD_2], HOROVOD_1),
        ([HOROVOD_4, HOROVOD_2], HOROVOD_2),
        ([HOROVOD_4, DDP_2], DDP_2),
        ([DDP_2, HOROVOD_2], HOROVOD_2),
    ],
)
def test_the_smallest_number_of_ranks_with_plain_torch_first(
    cells: list[CellTime], expected: CellTime
) -> None:
    assert baselines(cells) == {"resnet18": expected}


def test_a_toggle_is_never_the_baseline() -> None:
    fp16 = cell_time(np=1, compression="fp16")
    adasum = cell_time(np=1, reduction="adasum")

    assert baselines([fp16, adasum, HOROVOD_2]) == {"resnet18": HOROVOD_2}
    assert baselines([fp16, adasum]) == {}


def test_an_oversubscribed_cell_is_the_last_choice() -> None:
    crowded = cell_time(np=1, oversubscribed=True)

    assert baselines([crowded, HOROVOD_4]) == {"resnet18": HOROVOD_4}
    assert baselines([crowded]) == {"resnet18": crowded}


def test_each_model_has_its_own() -> None:
    vgg = cell_time(np=2, model="vgg16")

    assert baselines([HOROVOD_4, vgg, TORCH]) == {"resnet18": TORCH, "vgg16": vgg}


def test_its_name_in_tables() -> None:
    assert baseline_name(TORCH) == "torch np=1"
    assert baseline_name(HOROVOD_2) == "horovod np=2"
