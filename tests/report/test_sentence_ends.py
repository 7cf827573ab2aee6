from hvdprof.report.sentence_ends import each_sentence, first_clause


def test_a_number_or_a_name_ends_no_sentence():
    text = "Step 2.5 of main.py took 3.0 s. Fix it! Or wait."
    assert each_sentence(text) == ["Step 2.5 of main.py took 3.0 s.", "Fix it!", "Or wait."]
    assert each_sentence("") == []


def test_the_first_clause_has_no_full_stop():
    assert first_clause("Few steps. Measure more.") == "Few steps"
    assert first_clause("No stop") == "No stop"
