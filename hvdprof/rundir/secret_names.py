"""Which names are those of secrets, and which values of theirs are none.

Tested in ``tests/rundir/test_masking.py``.
"""

import re

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SECRET = re.compile(
    r"KEY|TOKEN|SECRET|PASSW|PASSPHRASE|PASSCODE|PASS(?![A-Z])|PWD|CREDENTIAL|CREDS|AUTH|JWT|"
    r"COOKIE|CSRF|BEARER|SIGNATURE|PW(?![A-Z])|WEBHOOK|MNEMONIC|SESSION_?ID|"
    r"(?<![A-Z])(?:SIG|SAS|PAT|CRED|OTP|TOTP|PSK)(?![A-Z])"
)
_MEASURES = "LENGTH|LEN|COUNT|SIZE|DIM|BITS|PER|LIMIT|BUDGET|TYPE|NAME|PADDING"
_HARMLESS = re.compile(
    r"TOKENI[SZ]|KEYPOINT|KEYWORD|KEYFRAME|KEYBOARD|MONKEY|HOTKEY|KEY_VALUE|KV_|AUTHOR(?!I)|"
    r"AUTH_(?:TYPE|MODE|METHOD)(?![A-Z])|BYPASS|COMPASS|"
    r"(?:FORWARD|BACKWARD|SINGLE|MULTI|FIRST|SECOND|ONE|TWO|PER)_?PASS|"
    r"(?<![A-Z])(?:MAX|MIN|NUM|N|TOTAL)_(?:[A-Z]+_){0,3}(?:TOKEN|KEY)S?(?![A-Z])|"
    rf"(?:TOKEN|KEY)S?_(?:{_MEASURES})(?![A-Z])|TOKENS?_(?:IDS?|EMBED|DROP|MIX|MERG|LEVEL|SHIFT)|"
    r"(?<![A-Z])(?:PAD|EOS|BOS|UNK|CLS|SEP|MASK|STOP|SPECIAL)_TOKENS?|"
    r"(?<![A-Z])(?:TEXT|IMAGE|LABEL|INPUT|OUTPUT|TARGET|SORT)_KEYS?"
)
_HARMLESS_VALUE = re.compile(
    r"(?:true|false|none|null|\*{3}|-?\d{1,3}(?:\.\d{1,6})?)?", re.IGNORECASE
)
_NUMBER_OF_TOKENS = re.compile(r"[1-9][\d_,.]{0,15}(?:e\d{1,2})?[KMBT]?", re.IGNORECASE)
_PATH = re.compile(r"/[^;&|=\0\n]*")


def is_secret_name(name: str) -> bool:
    """Whether what such a variable, option or field holds is a secret; names of counts are not."""
    words = _CAMEL.sub("_", name).upper().replace("-", "_").replace(".", "_")
    return bool(_SECRET.search(words) and _SECRET.search(_HARMLESS.sub(" ", words)))


def is_secret(name: str, value: str) -> bool:
    """Whether a value is one, by its name: numbers of heads and switches are named like secrets."""
    if not is_secret_name(name) or _HARMLESS_VALUE.fullmatch(value):
        return False
    return not (name.lower().endswith("tokens") and _NUMBER_OF_TOKENS.fullmatch(value))


def is_working_folder(name: str, value: str) -> bool:
    """Whether a shell's own variable holds a path; ``pwd`` elsewhere is a password."""
    return name in ("PWD", "OLDPWD") and bool(_PATH.fullmatch(value))
