from html.parser import HTMLParser

from hvdprof.report.document.html_report import analysis_html, page_html
from hvdprof.report.sections.section import Action, Head, Page, Section
from tests.builders.finished_analysis import full_analysis

UNCLOSED = {"br", "rect"}


def balanced(text):
    class Checked(HTMLParser):
        def __init__(self):
            super().__init__()
            self.open, self.fine = [], True

        def handle_starttag(self, tag, attrs):
            self.open += [tag] * (tag not in UNCLOSED)

        def handle_endtag(self, tag):
            self.fine = self.fine and bool(self.open) and self.open.pop() == tag

    checked = Checked()
    checked.feed(text)
    return checked.fine and not checked.open


def test_the_first_screen_of_an_analysis():
    finished = full_analysis()
    page = analysis_html(finished)
    assert balanced(page)
    assert finished.verdict.sentence in page
    assert page.count("border-left:4px") == 5


def test_every_part_of_a_section_is_there_and_no_text_is_markup():
    section = Section(
        title="A<b>",
        detail="of c",
        caption="how",
        heads=(Head("name", is_text=True), Head("ms")),
        rows=(("x<script>", "1\n2"),),
        sentences=("So be it.",),
        note="a note",
        verdict="It is slow.",
        caveat="Few.",
        actions=(Action("Do", "set it", "A=1 < 2"),),
    )
    page = page_html(Page((section,), notes=("left out",)))
    assert balanced(page)
    assert "<script>" not in page
    for text in ("A&lt;b&gt;", "of c", "how", "x&lt;script&gt;", "1<br>2", "So be it.", "a note"):
        assert text in page
    for text in ("It is slow.", "Caveat: Few.", "Do set it", "A=1 &lt; 2", "left out"):
        assert text in page
