import pytest

from hvdprof.analyze.scaling.stated_speedups import contradicted_speedups
from hvdprof.model.tables.log_tables import THROUGHPUT
from tests.builders.declared_rows import declared_rows


def table(stated):
    rates = {1: 100.0, 2: 190.0, 4: 350.0}
    return declared_rows(
        THROUGHPUT,
        *(
            {"np": np, "samples_per_s": rate, "stated_speedup": speedup}
            for (np, rate), speedup in zip(rates.items(), stated, strict=True)
        ),
    )


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        ((1.0, 1.9, 3.5), ""),
        ((1.0, 1.9, 3.45), ""),
        ((1.0, 1.9, 4.1), "The throughputs contradict 1 stated speed-up (np=4) by more than 2 %."),
        ((float("nan"),) * 3, ""),
        # Stated against another baseline.
        ((0.5, 0.95, 1.75), ""),
    ],
)
def test_stated_speed_ups_are_held_against_the_throughputs(stated, said):
    assert contradicted_speedups([table(stated)]) == said
