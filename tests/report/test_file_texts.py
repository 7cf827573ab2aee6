import pytest

from hvdprof.model.file_page import Fact, FilePage, Unanswered
from hvdprof.report.file_texts import file_texts

FACTS = (
    Fact("num_ranks", "ranks", 16),
    Fact("waited_s", "waited at least", 62.0, "s"),
    Fact("transports", "transports", None),
    Fact("calls", "calls", 2, text="nccl:all_reduce\nnccl:broadcast"),
    Fact("hidden", "", 7),
)


def page(**values):
    return FilePage(
        **{
            "file": "dumps/_dump_*",
            "kind": "16 dumps",
            "size_bytes": 49_500,
            "facts": FACTS,
            "unanswered": (Unanswered("how long ranks wait", "hvdprof run --np 16"),),
        }
        | values
    )


def test_a_fact_has_its_unit_and_one_without_a_label_no_line():
    assert file_texts(page()).facts == (
        ("ranks", "16"),
        ("waited at least", "62.0 s"),
        ("transports", "-"),
        ("calls", "nccl:all_reduce\nnccl:broadcast"),
    )


def test_kind_and_size_stand_beside_the_name_and_a_question_is_a_sentence():
    texts = file_texts(page())
    assert (texts.file, texts.about) == ("dumps/_dump_*", "16 dumps, 49.5 kB")
    assert texts.unanswered == (("How long ranks wait.", "hvdprof run --np 16"),)


@pytest.mark.parametrize(
    ("values", "note"),
    [
        ({}, ""),
        ({"facts": ()}, "No content that hvdprof reads."),
        ({"facts": (), "left_out": "it breaks off"}, "Left out: see Warnings."),
    ],
)
def test_a_file_without_facts_says_why(values, note):
    assert file_texts(page(**values)).note == note
