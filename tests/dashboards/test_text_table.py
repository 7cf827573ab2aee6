import csv
import io

import pandas as pd

from hvdprof.dashboards.components.text_table import TextRows, text_card


def saved_of(card):
    """The rows that the button of a card writes."""
    (table,) = [one for one in card.children.children if hasattr(one, "data-rows")]
    return list(csv.reader(io.StringIO(getattr(table, "data-csv"))))


def test_what_is_saved_are_the_numbers_behind_the_texts():
    frame = pd.DataFrame({"cell": ["a, b"], "rate": [4308.25], "rate_low": [3410.0]})
    card = text_card("x", "X", TextRows(("cell", "rate"), [("a, b", "4,308 ± 898")], frame))
    assert saved_of(card) == [["cell", "rate", "rate_low"], ["a, b", "4308.25", "3410.0"]]
    assert "4,308 ± 898" in str(card)
