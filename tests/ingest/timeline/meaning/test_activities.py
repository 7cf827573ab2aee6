import pytest

from hvdprof.ingest.timeline.meaning.activities import UNKNOWN, payloads_of


@pytest.mark.parametrize(
    ("args", "size"),
    [
        ('{"dtype": "float32", "shape": "[64, 784]"}', 4 * 64 * 784),
        ('{"dtype": "float32", "shape": "[]"}', 4),
        ('{"dtype": "float16", "shape": "[7]"}', 14),
        ('{"dtype": "bool", "shape": "[3,5]"}', 15),
        ('{"dtype": "int64", "shape": "[2]"}', 16),
        ('{"dtype": "uint8", "shape": "[0]"}', 0),
        ('{"dtype": "complex64", "shape": "[2]"}', UNKNOWN),
        ('{"dtype": "float32"}', UNKNOWN),
        ('{"dtype": "float32", "shape": "[-1]"}', UNKNOWN),
        ('{"dtype": "float32", "shape": "64"}', UNKNOWN),
        ('{"dtype": "float64", "shape": "[99999999999, 99999999999]"}', UNKNOWN),
        (f'{{"dtype": "float32", "shape": "[{"9" * 5000}]"}}', UNKNOWN),
        ('{"dtype": 4, "shape": [1]}', UNKNOWN),
        ("[1]", UNKNOWN),
        ("{", UNKNOWN),
    ],
)
def test_bytes_are_elements_times_their_size_and_missing_where_unknown(
    args: str, size: int
) -> None:
    payloads = payloads_of([args])
    assert payloads.size_bytes.tolist() == [size, UNKNOWN]


def test_no_args_have_no_size_and_no_type() -> None:
    payloads = payloads_of(['{"dtype": "int8", "shape": "[3]"}'])
    assert payloads.dtypes[payloads.dtype[-1]] == ""
    assert payloads.dtypes[payloads.dtype[0]] == "int8"


def test_a_dtype_of_an_unpaired_surrogate_is_escaped() -> None:
    assert payloads_of(['{"dtype": "\\ud800", "shape": "[3]"}']).dtypes == ("", "\\ud800")
