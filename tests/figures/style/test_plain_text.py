from hvdprof.figures.style.plain_text import plain


def test_signs_of_markup_are_text():
    assert plain("<a href='x'>y</a> & z") == "&lt;a href='x'&gt;y&lt;/a&gt; &amp; z"


def test_a_long_name_is_cut_in_the_middle_before_it_is_escaped():
    assert plain("<module>." * 20 + "<weight>", 11) == "&lt;modu…ight&gt;"


def test_lines_become_one():
    assert plain("a\n b\t c") == "a b c"
