"""The queries of the Grafana board of the manual, for any job."""

import json

from tests.builders.places import DOCS


def board_queries() -> list[str]:
    """The expressions of all panels."""
    board = json.loads((DOCS / "reference" / "watch_board.json").read_text(encoding="utf-8"))
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    return [expression.replace("$job", ".*") for expression in expressions]
