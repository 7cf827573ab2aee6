"""What a predicted job costs: samples per unit of currency at a price per rank-hour.

Tested in ``tests/report/forecast/test_forecast_json.py``.
"""

import pandas as pd

from hvdprof.model.tables.forecast_tables import QUANTILES

_SECONDS_PER_HOUR = 3600.0


def samples_per_currency(rows: pd.DataFrame, price_per_rank_hour: float) -> pd.DataFrame:
    """Columns scenario, np and ``samples_per_currency_p5`` to ``_p95``: throughput by its price.

    Args:
        rows: FORECAST.
        price_per_rank_hour: In any currency.
    """
    price_per_s = rows["np"] * price_per_rank_hour / _SECONDS_PER_HOUR
    return pd.DataFrame(
        {
            "scenario": rows["scenario"],
            "np": rows["np"],
            **{
                f"samples_per_currency_{short}": rows[f"samples_per_s_{short}"] / price_per_s
                for short in QUANTILES
            },
        }
    )
