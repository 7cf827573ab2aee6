"""Terms of the glossary in the texts of the dashboard, and their list."""

import re

import dash_mantine_components as dmc
import pytest

from hvdprof.dashboards import navigation
from hvdprof.dashboards.components.data_table import table_card
from hvdprof.dashboards.components.section import fact_table, section
from hvdprof.dashboards.components.term_link import linked_terms, term_list
from hvdprof.dashboards.components.text_table import text_table
from hvdprof.model.glossary import GLOSSARY, term
from hvdprof.model.tables.collective_tables import COLLECTIVES
from tests.builders.served_dashboard import shown_text


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


def test_an_option_of_a_command_is_not_broken_at_its_hyphens():
    pieces = linked_terms("Start again: hvdprof bench --wait-for-quiet 10m --np 1,2, self-made.")
    whole = [piece.children for piece in pieces if getattr(piece, "className", "") == "option"]
    assert whole == ["--wait-for-quiet", "--np"]
    assert "".join(getattr(piece, "children", piece) for piece in pieces) == (
        "Start again: hvdprof bench --wait-for-quiet 10m --np 1,2, self-made."
    )


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


def test_a_term_with_a_link_close_by_gets_no_second_one():
    assert linked_terms("Overlap and negotiation", ["overlap"])[0] == "Overlap and "
    shown = section("Overlap with computation", about="Overlap costs nothing; negotiation does.")
    text = shown_text(shown)
    assert text.count("/glossary#overlap") == 1
    assert text.count("/glossary#negotiation") == 1
    # Also titles that are broken up by a link are read as one.
    assert '"Overlap with computation"' in text


def test_the_headings_of_a_grid_have_their_terms_in_a_line_above_it():
    shown = shown_text(table_card("Pairs", COLLECTIVES, COLLECTIVES.empty(), about="By overlap."))
    assert "Terms: " in shown
    assert shown.count("/glossary#negotiation") == 1
    assert term("negotiation").definition in shown
    assert term_list(["tensor", "step"]) is None


def test_headings_of_tables_and_labels_of_facts_are_linked():
    assert "/glossary#negotiation" in shown_text(
        text_table(["negotiation"], [], left=1, narrowest=9)
    )
    assert "/glossary#busbw" in shown_text(fact_table([("peak busbw", "1 GB/s")]))


def test_every_link_leads_to_an_entry_of_the_page():
    page = str(navigation.terms())
    for each in GLOSSARY:
        assert re.search(rf"id='{re.escape(each.anchor)}'", page), each.name


def test_the_name_of_a_file_is_not_read_as_a_term():
    assert "glossary#" in shown_text(section("Negotiation of tensors"))
    assert "glossary#" not in shown_text(section("/runs/hang.log"))
