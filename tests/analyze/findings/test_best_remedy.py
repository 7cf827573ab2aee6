import pytest

from hvdprof.analyze.findings.best_remedy import best_remedy
from hvdprof.model.tables.finding_tables import FINDINGS
from tests.builders.finished_analysis import finding, verdict


def of_cell(id_, ceiling, **values):
    cell = {"model": "resnet18", "np": 2, "engine": "horovod", "gain_share": ceiling}
    return finding(**{"id": id_, "subject": "rank 3", **cell, **values})


@pytest.mark.parametrize(
    ("rows", "clause"),
    [
        ([], ""),
        (
            [of_cell("exposed-transfer", 0.1)],
            " On a perfect network it would reach at most 93.6 %.",
        ),
        (
            [of_cell("exposed-transfer", 0.05), of_cell("persistent-straggler", 0.1)],
            " With rank 3 on time it would reach at most 93.6 %.",
        ),
        ([of_cell("exposed-transfer", 0.1, np=4)], ""),
        ([of_cell("exposed-transfer", 0.1, engine="ddp")], ""),
        ([of_cell("exposed-transfer", float("nan"))], ""),
        ([of_cell("size-cliff", 0.3)], ""),
        ([of_cell("exposed-transfer", 0.3)], ""),
        ([of_cell("persistent-straggler", 0.0001)], ""),
    ],
)
def test_the_remedy_with_the_most_to_give_is_told(rows, clause):
    assert best_remedy(verdict(efficiency=0.842), FINDINGS.frame(rows)) == clause
