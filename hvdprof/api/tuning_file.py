"""The result of a tuning in its folder: written whole or not at all, and read again.

Tested in ``tests/api/test_tuning_file.py``.
"""

import json
import math
from dataclasses import asdict
from pathlib import Path

from hvdprof.errors import StorageError, UnreadableInputError
from hvdprof.model.results.tuning import TUNING_SCHEMA_VERSION, Tuning
from hvdprof.rundir.file_names import shown_name
from hvdprof.rundir.json_codec import decode
from hvdprof.rundir.layout import TuningPaths
from hvdprof.rundir.regular_file import read_regular
from hvdprof.rundir.written_file import mode_of_files, write_whole

_ENDS = ("low", "high")


def write_tuning(tuning: Tuning, folder: Path) -> None:
    """Write a result into the folder of its tuning.

    Raises:
        StorageError: The file cannot be written.
    """
    content = {"schema_version": TUNING_SCHEMA_VERSION, **asdict(tuning)}
    text = json.dumps(_without_nan(content), indent=1, ensure_ascii=False, allow_nan=False) + "\n"
    paths = TuningPaths(folder)
    write_whole(paths.result, text, mode=mode_of_files(paths.present))


def check_folder(folder: Path) -> None:
    """Check that a new tuning can be saved in a folder.

    Raises:
        StorageError: The folder holds something, or is no folder.
    """
    try:
        is_used = folder.exists() and any(folder.iterdir())
    except OSError as error:
        raise StorageError(
            f"{folder} cannot hold a tuning: {error.strerror}.",
            hint="Name a new folder with --runs.",
        ) from error
    if is_used:
        raise StorageError(
            f"{folder} is not empty, and tunings are not overwritten.",
            hint="Name a new folder with --runs.",
        )


def load_tuning(folder: str | Path) -> Tuning:
    """The result of a tuning that has ended.

    Args:
        folder: Its folder.

    Raises:
        UnreadableInputError: The folder holds no result, or one of another version.
    """
    path = TuningPaths(Path(folder)).result
    try:
        data = json.loads(read_regular(path), object_hook=_with_open_ends)
        if data.get("schema_version") != TUNING_SCHEMA_VERSION:
            raise ValueError(f"schema_version is not {TUNING_SCHEMA_VERSION}")
        return decode(Tuning, data, path.name)
    except OSError as error:
        raise UnreadableInputError(
            f"{folder} holds no result of a tuning: {error.strerror}.",
            hint="hvdprof tune writes tuning.json at its end; its runs are in the folders "
            "present, race and check.",
        ) from error
    except (ValueError, TypeError, AttributeError) as error:
        raise UnreadableInputError(f"{shown_name(path)} is damaged: {error}.") from error


def _without_nan(value: object) -> object:
    if isinstance(value, dict):
        return {name: _without_nan(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _with_open_ends(record: dict[str, object]) -> dict[str, object]:
    """An object of JSON; the open ends of an interval are NaN again."""
    if record.keys() != {"value", *_ENDS}:
        return record
    return {name: math.nan if value is None else value for name, value in record.items()}
