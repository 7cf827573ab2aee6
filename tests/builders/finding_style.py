"""The style that every finding keeps: short title, plain sentences, an imperative first."""

import re
from collections.abc import Hashable, Mapping

MOST_TITLE_WORDS = 8
MOST_SENTENCE_WORDS = 25

IMPERATIVES = (
    *(
        "Call",
        "Check",
        "Compare",
        "Copy",
        "End",
        "Even",
        "Give",
        "Install",
        "Look",
        "Move",
        "Omit",
        "Pass",
        "Pin",
        "Put",
    ),
    *("Raise", "Read", "Record", "Run", "Set", "Split", "Start", "Unset", "Use", "Wait", "Write"),
)
"""With which an action may start."""

_END = re.compile(r"(?<=[.:!?])\s+(?=[A-Z0-9`])")
_NUMBER = re.compile(r"\b\d[\d.,]* (%|ms|s)(?=\W|$)")
_CODE = re.compile(r"`[^`]*`|\([^()]*\)")


def style_faults(row: Mapping[Hashable, object]) -> list[str]:
    """What is wrong with the texts of a row of FINDINGS.

    Commands and parentheses count once, numbers with a unit not at all in a title.
    """
    title, evidence, action = (str(row[name]) for name in ("title", "evidence", "action"))
    faults = []
    if not 0 < len(_NUMBER.sub("", title).split()) <= MOST_TITLE_WORDS or title.endswith("."):
        faults.append(f"title: {title}")
    for name, text in (("evidence", evidence), ("action", action)):
        if not text.endswith("."):
            faults.append(f"{name} does not end: {text}")
        plain = _CODE.sub("code", text)
        if ";" in plain or ";" in title:
            faults.append(f"{name} has a semicolon: {text}")
        faults += [
            f"{name} has a long sentence: {sentence}"
            for sentence in _END.split(plain)
            if len(sentence.split()) > MOST_SENTENCE_WORDS
        ]
    if action.split()[:1] and action.split()[0] not in IMPERATIVES:
        faults.append(f"action starts with no imperative: {action}")
    return faults
