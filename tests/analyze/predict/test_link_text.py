"""Texts of --link and --intra to numbers, and what is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hvdprof.analyze.predict.link_text import StatedLink, parse_intra, parse_link
from hvdprof.errors import UsageError


@pytest.mark.parametrize(
    ("text", "bytes_per_ns", "latency_ns"),
    [
        ("25Gbit,15us", 3.125, 15_000.0),
        ("25Gb/s", 3.125, None),
        (" 25 Gbps , 15 us ", 3.125, 15_000.0),
        ("100Gbit/s,1.5us", 12.5, 1_500.0),
        ("3GB/s,0.02ms", 3.0, 20_000.0),
        ("400Gb,900ns", 50.0, 900.0),
        ("200Mbit,5 µs", 0.025, 5_000.0),
        ("0.5TB/s", 500.0, None),
        ("1Gbit,1s", 0.125, 1e9),
        ("12500000B/s", 0.0125, None),
        ("64kbit", 8e-6, None),
    ],
)
def test_a_link_is_a_bandwidth_and_perhaps_a_latency(
    text: str, bytes_per_ns: float, latency_ns: float | None
) -> None:
    found = parse_link(text)
    assert found.bytes_per_ns == pytest.approx(bytes_per_ns)
    assert found.latency_ns == (None if latency_ns is None else pytest.approx(latency_ns))
    assert found.text == text.strip()


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "no bandwidth"),
        ("fast", "no bandwidth"),
        ("25", "no bandwidth"),
        ("25G", "no bandwidth"),
        ("3GB", "no bandwidth"),
        ("0Gbit", "no bandwidth"),
        ("-1Gbit", "no bandwidth"),
        ("1.2.3Gbit", "no bandwidth"),
        ("infGbit", "no bandwidth"),
        ("15us,25Gbit", "no bandwidth"),
        ("25Gbit,", "no latency"),
        ("25Gbit,fast", "no latency"),
        ("25Gbit,0us", "no latency"),
        ("25Gbit,15us,3", "no latency"),
    ],
)
def test_a_link_of_another_form_says_what_is_missing(text: str, part: str) -> None:
    with pytest.raises(UsageError, match=part) as caught:
        parse_link(text)
    assert "--link" in caught.value.message
    assert "25Gbit,15us" in caught.value.hint


@pytest.mark.parametrize(
    ("text", "bytes_per_ns", "latency_ns"),
    [
        ("shm", 5.0, 5_000.0),
        ("SHM:8GB/s", 8.0, 5_000.0),
        ("pcie", 12.0, 5_700.0),
        ("nvlink:300GB/s", 300.0, 3_400.0),
        ("nvlink:300GB/s,2us", 300.0, 2_000.0),
        ("nvlink:2400Gbit", 300.0, 3_400.0),
    ],
)
def test_a_kind_fills_in_what_the_text_leaves_out(
    text: str, bytes_per_ns: float, latency_ns: float
) -> None:
    assert parse_intra(text) == StatedLink(text, bytes_per_ns, latency_ns)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("cable", "names no link"),
        ("25Gbit", "names no link"),
        ("nvlink", "needs a bandwidth"),
        ("nvlink:", "no bandwidth"),
        ("shm:fast", "no bandwidth"),
        ("pcie:12GB/s,soon", "no latency"),
    ],
)
def test_an_intra_link_of_another_form_says_what_is_missing(text: str, part: str) -> None:
    with pytest.raises(UsageError, match=part) as caught:
        parse_intra(text)
    assert "--intra" in caught.value.message
    assert "nvlink:300GB/s" in caught.value.hint


@given(st.floats(1e-3, 1e4), st.floats(1e-2, 1e4))
def test_numbers_come_back(gigabits: float, microseconds: float) -> None:
    found = parse_link(f"{gigabits:.6f}Gbit,{microseconds:.6f}us")
    assert found.bytes_per_ns == pytest.approx(gigabits / 8, rel=1e-2)
    assert found.latency_ns == pytest.approx(microseconds * 1e3, rel=1e-2)
