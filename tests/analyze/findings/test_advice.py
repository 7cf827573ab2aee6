from hvdprof.analyze.findings.advice import (
    Advice,
    advice,
    in_turn,
    set_to,
    unset,
)


def test_the_fix_is_the_first_sentence_unless_that_says_more():
    assert advice("do x", "Then y.", command="x") == Advice("Do x. Then y.", "do x", "x")
    assert advice("do x", first="Do x (a lot).") == Advice("Do x (a lot).", "do x")


def test_a_variable_can_be_copied():
    assert set_to("A_B=1", " here", unit="ms") == Advice(
        "Set A_B=1 (ms) here.", "set A_B=1 here", "export A_B=1"
    )
    assert unset("A_B", more="Run it.") == Advice("Unset A_B. Run it.", "unset A_B", "unset A_B")


def test_of_several_the_first_is_the_fix_and_the_first_command_counts():
    found = in_turn(Advice(), advice("do x"), advice("do y", command="y"), unset("Z"))
    assert found == Advice("Do x. Do y. Unset Z.", "do x", "y")
    assert in_turn(Advice()) == Advice()


def test_values_stand_in_all_texts():
    found = advice("ask {who}", "Then {what}.", command="ask {who}").formatted(who="a", what="b")
    assert found == Advice("Ask a. Then b.", "ask a", "ask a")
