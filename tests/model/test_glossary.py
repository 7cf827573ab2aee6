"""The glossary: every term once, short, and reachable by the link that the dashboard makes."""

import pytest

from hvdprof.model.causes import TERMS
from hvdprof.model.glossary import GLOSSARY, term


def _is_short(definition: str) -> bool:
    sentences = definition.rstrip(".").split(". ")
    longest = max(len(sentence.split()) for sentence in sentences)
    return len(sentences) <= 2 and longest <= 25 and definition.endswith(".")


def test_a_definition_is_at_most_two_sentences_of_25_words() -> None:
    assert [each.name for each in GLOSSARY if not _is_short(each.definition)] == []


def test_names_and_anchors_are_unique() -> None:
    assert len({each.name for each in GLOSSARY}) == len(GLOSSARY)
    assert len({each.anchor for each in GLOSSARY}) == len(GLOSSARY)


def test_anchors_are_those_of_python_markdown() -> None:
    slugify = pytest.importorskip("markdown.extensions.toc").slugify
    assert [each.anchor for each in GLOSSARY] == [slugify(each.name, "-") for each in GLOSSARY]


def test_every_cause_of_the_waterfall_is_defined() -> None:
    assert set(TERMS.values()) <= {each.name for each in GLOSSARY}


def test_a_term_that_does_not_exist_is_an_error() -> None:
    assert term("busbw").formula.startswith("busbw = algbw")
    with pytest.raises(KeyError):
        term("no such term")
