from pathlib import Path

import pytest

from docs.ran_where import ran_table, ran_where

SOURCE = """
import pytest

pytestmark = [pytest.mark.horovod, pytest.mark.timeout(900)]


@pytest.mark.ran("bench", "Gloo", "one host")
@pytest.mark.parametrize("np", [1, 2])
def test_one(np): ...


@pytest.mark.ran("run", "Open MPI", "two hosts")
@pytest.mark.root
def test_two(): ...


def test_no_row(): ...
"""


def test_a_row_is_of_its_test_and_says_who_starts_it(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "test_it.py").write_text(SOURCE)
    (tmp_path / "test_tf.py").write_text(
        "pytestmark = [pytest.mark.tensorflow]\n\n"
        "@pytest.mark.ran('fit', 'Keras', 'one host')\ndef test_fit(): ...\n"
    )
    assert ran_table(ran_where(tmp_path)).splitlines()[2:] == [
        "| bench | Gloo | one host | `deep/test_it.py` | tests, every time |",
        "| run | Open MPI | two hosts | `deep/test_it.py` | tests, as root |",
        "| fit | Keras | one host | `test_tf.py` | `make test-tensorflow` |",
    ]


@pytest.mark.parametrize("mark", ["ran", "ran('a', 'b')", "ran('a', 'b', 3)", "ran(*ROWS)"])
def test_a_marker_of_another_form_is_refused(tmp_path: Path, mark: str) -> None:
    (tmp_path / "test_it.py").write_text(f"@pytest.mark.{mark}\ndef test_one(): ...\n")
    with pytest.raises(ValueError, match=r"test_it.py: pytest.mark.ran takes three texts"):
        ran_where(tmp_path)


def test_rows_of_other_tests_are_there() -> None:
    names = {row.test for row in ran_where(Path(__file__).parents[1])}
    assert {"test_run_session.py", "test_bench_slurm.py", "test_run_tensorflow.py"} <= names
