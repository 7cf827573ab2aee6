import pandas as pd
import pytest

from hvdprof.model.causes import FORECAST_TERMS, TERMS
from hvdprof.model.results.forecast import Forecast, Question
from hvdprof.model.schema import Table
from hvdprof.model.tables.forecast_tables import FORECAST, FORECAST_TABLES, QUANTILES


@pytest.mark.parametrize("table", FORECAST_TABLES, ids=lambda table: table.name)
def test_every_column_has_a_sentence_a_dtype_and_a_unit(table: Table) -> None:
    assert table.doc.endswith(".")
    assert len(set(table.column_names)) == len(table.columns)
    for column in table.columns:
        assert column.doc.endswith("."), column.name
        pd.Series([], dtype=column.dtype)
        assert not column.name.endswith("_ns") or column.unit == "ns"
        assert not column.name.endswith("_hours") or column.unit == "h"


@pytest.mark.parametrize("stem", ["efficiency_{}", "samples_per_s_{}", "step_time_{}_ns"])
def test_a_predicted_quantity_has_every_quantile(stem: str) -> None:
    assert {stem.format(short) for short in QUANTILES} <= set(FORECAST.column_names)


def test_causes_have_the_names_of_the_waterfall() -> None:
    for term, name in FORECAST_TERMS.items():
        assert TERMS.get(term, name) == name


def test_a_forecast_without_rows_has_the_declared_columns() -> None:
    question = Question(sizes=(16,), model="resnet50")

    empty = Forecast(
        question=question, baseline="torch np=1", baseline_samples_per_s=9.0, measured_np=(1, 2)
    )

    assert list(empty.rows.columns) == FORECAST.column_names
    assert (empty.model, empty.engine) == ("resnet50", "horovod")
