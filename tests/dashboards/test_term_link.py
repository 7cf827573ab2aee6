"""Terms of the glossary in the texts of the dashboard, and their page."""

import re

import dash_mantine_components as dmc
import pytest

from hvdprof.dashboards.components.term_link import linked_terms
from hvdprof.dashboards.pages import glossary
from hvdprof.model.glossary import GLOSSARY, term


def links(text):
    return [piece for piece in linked_terms(text) if isinstance(piece, dmc.Tooltip)]


def test_the_first_use_of_a_term_links_to_its_definition():
    pieces = linked_terms("Overlap of both: no overlap costs time.")
    assert [getattr(piece, "children", piece) for piece in pieces[1:]] == [
        " of both: no overlap costs time."
    ]
    assert pieces[0].label == term("overlap").definition
    assert pieces[0].children.href == "/glossary#overlap"
    assert pieces[0].children.children == "Overlap"
    assert pieces[0].events["focus"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Caused wait (Shapley): a share", "caused wait (Shapley)"),
        ("the caused wait of a rank", "caused wait (Shapley)"),
        ("blocking exposed communication", "blocking exposed communication"),
        ("with its 95 % CI over launches", "95 % CI"),
    ],
)
def test_the_longest_term_wins(text, name):
    assert [link.label for link in links(text)] == [term(name).definition.replace("`", "")]


def test_words_of_every_sentence_and_parts_of_words_are_no_links():
    assert linked_terms("a step of a rank in a launch, overlapped") == [
        "a step of a rank in a launch, overlapped"
    ]


def test_every_link_leads_to_an_entry_of_the_page():
    page = str(glossary.layout(None, None))
    for each in GLOSSARY:
        assert re.search(rf"id='{re.escape(each.anchor)}'", page), each.name
