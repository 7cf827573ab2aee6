"""Everything that is read without a log prefix is read with it: every reader, every form."""

import itertools
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

import pandas as pd
import pytest

from hvdprof.ingest.logs.printed_file import PARTS, read_printed_file
from hvdprof.ingest.nccl.reader import read_nccl_logs
from tests.builders.log_prefixes import IN_TWO, OUTERMOST, PREFIXES, Prefix
from tests.builders.printed_texts import NCCL, TEXTS

ORDERS = (
    ("docker -t", "horovodrun"),
    ("kubectl --prefix", "docker -t"),
    ("GitHub Actions", "Ray in colours"),
    ("quoted", "mpirun"),
    ("cat -n", "journald"),
    ("CRI", "torchrun"),
    ("docker JSON", "srun"),
    ("compose", "mpirun 5"),
)


def tables_of(path: Path, text: str) -> dict[str, pd.DataFrame]:
    path.write_text(text, encoding="utf-8")
    tables = dict(read_printed_file(path).tables)
    if "rank_stacks" in tables:
        # A prefix may name it.
        tables["rank_stacks"] = tables["rank_stacks"].drop(columns="host")
    return tables


def nccl_of(path: Path, text: str) -> dict[str, pd.DataFrame]:
    path.write_text(text, encoding="utf-8")
    recording = read_nccl_logs([path])
    names = ("ranks", "communicators", "connections", "calls", "settings", "nics", "versions")
    return {name: getattr(recording, name) for name in names}


@cache
def plain(folder: Path, name: str) -> Mapping[str, pd.DataFrame]:
    path = folder / "out.log"
    return nccl_of(path, NCCL) if name == "nccl" else tables_of(path, TEXTS[name])


def tagged_columns(name: str, frame: pd.DataFrame) -> set[str]:
    """The columns of a table in which the rank of a prefix stands where a line names none."""
    possible = {"tag_rank"} if name in ("ranks", "calls") else {"rank", "tag_rank"}
    return possible & set(frame.columns)


@cache
def with_rank(folder: Path, name: str, rank: int | None) -> Mapping[str, pd.DataFrame]:
    """The tables of a text where a prefix names a rank."""
    frames = plain(folder, name)
    if rank is None:
        return frames
    return {
        table: frame.assign(
            **{column: frame[column].fillna(rank) for column in tagged_columns(table, frame)}
        )
        for table, frame in frames.items()
    }


def equal(found: Mapping[str, pd.DataFrame], expected: Mapping[str, pd.DataFrame]) -> bool:
    """Whether tables are equal, which takes a tenth of the time of saying where they differ."""
    return found.keys() == expected.keys() and all(
        found[name].equals(frame) and found[name].dtypes.equals(frame.dtypes)
        for name, frame in expected.items()
    )


def same(
    found: Mapping[str, pd.DataFrame], expected: Mapping[str, pd.DataFrame], rank: int | None
) -> None:
    assert found.keys() == expected.keys()
    for name, frame in expected.items():
        tagged = tagged_columns(name, frame)
        for column in tagged:
            expected_ranks = (
                frame[column].astype("Int64").fillna(rank)
                if rank is not None
                else frame[column].astype("Int64")
            )
            assert found[name][column].astype("Int64").tolist() == expected_ranks.tolist(), (
                name,
                column,
            )
        left = [column for column in frame.columns if column not in tagged]
        pd.testing.assert_frame_equal(found[name][left], frame[left])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("prefixed")


@pytest.mark.heavy
def test_every_reader_has_a_text(folder: Path) -> None:
    given = {name for text in TEXTS for name in plain(folder, text)}
    assert {part.TABLES[0].name for part in PARTS} <= given  # type: ignore[attr-defined]


def differing(folder: Path, name: str, prefixes: Iterable[tuple[Prefix, ...]]) -> list[str]:
    """The prefixes, outermost first, with which a text gives other tables than without."""
    failed = []
    for nested in prefixes:
        text = NCCL if name == "nccl" else TEXTS[name]
        rank = None
        for prefix in reversed(nested):
            text = prefix.of(text)
            rank = prefix.rank if rank is None else rank
        read = nccl_of if name == "nccl" else tables_of
        found = read(folder / "out.log", text)
        if equal(found, with_rank(folder, name, rank)):
            continue
        try:
            same(found, plain(folder, name), rank)
        except AssertionError as error:
            failed.append(f"{' in '.join(map(repr, nested))}: {str(error).splitlines()[0]}")
    return failed


@pytest.mark.heavy
@pytest.mark.parametrize("name", [*TEXTS, "nccl"])
def test_output_with_a_prefix_has_the_same_tables(folder: Path, name: str) -> None:
    assert differing(folder, name, ((prefix,) for prefix in PREFIXES)) == []


@pytest.mark.heavy
@pytest.mark.parametrize("name", [*TEXTS, "nccl"])
def test_prefixes_within_prefixes(folder: Path, name: str) -> None:
    by_name = {prefix.name: prefix for prefix in PREFIXES}
    pairs = ((by_name[outer], by_name[inner]) for outer, inner in ORDERS)
    assert differing(folder, name, pairs) == []


@pytest.mark.slow
@pytest.mark.parametrize(("place", "name"), [(0, "horovod"), (1, "nccl-tests")])
def test_every_pair_of_prefixes(folder: Path, place: int, name: str) -> None:
    # Each pair is read once: the two texts take turns, so every prefix meets both.
    pairs = itertools.permutations(PREFIXES, 2)
    allowed = [(outer, inner) for outer, inner in pairs if inner.name not in OUTERMOST][place::2]
    assert {prefix.name for pair in allowed for prefix in pair} == {one.name for one in PREFIXES}
    assert differing(folder, name, allowed) == []


def test_lines_in_parts_are_joined(folder: Path) -> None:
    found = tables_of(folder / "out.log", IN_TWO.of(TEXTS["nccl-tests"]))
    expected = plain(folder, "nccl-tests")
    for name, frame in expected.items():
        left = [column for column in frame.columns if column != "line"]
        pd.testing.assert_frame_equal(found[name][left], frame[left])
