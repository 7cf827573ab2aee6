"""Values of strict JSON: what is missing or not finite becomes ``null``."""

import json
import math
from collections.abc import Mapping, Sequence
from typing import IO, TypeAlias

import pandas as pd

JsonValue: TypeAlias = "bool | int | float | str | list[JsonValue] | dict[str, JsonValue] | None"
JsonObject: TypeAlias = dict[str, JsonValue]


def json_value(value: object) -> JsonValue:
    """The value as JSON; missing and non-finite numbers as ``None``.

    Raises:
        TypeError: JSON has no form for it.
    """
    if value is None or value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    if isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Mapping):
        return {str(name): json_value(item) for name, item in value.items()}
    if isinstance(value, Sequence):
        return [json_value(item) for item in value]
    raise TypeError(f"{type(value).__name__} has no form in JSON")


def json_rows(table: pd.DataFrame) -> list[JsonValue]:
    """The rows of a table, an object each."""
    return [json_value(row) for row in table.astype(object).to_dict(orient="records")]


def write_json(content: JsonObject, stream: IO[str]) -> None:
    """Write one indented object and a newline."""
    json.dump(content, stream, indent=1, allow_nan=False, ensure_ascii=False)
    stream.write("\n")
