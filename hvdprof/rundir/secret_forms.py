"""What is a secret in a text: by its name, by its form, and where its value ends.

The table follows the plugins of detect-secrets (Yelp) and the rules of gitleaks; the libraries
themselves are not used, because what starts a job needs the standard library alone. Arguments of
a command are separated by NUL here, which none of them can hold.
"""

import re
from enum import Enum

MASK = "***"
_BODY = r"[A-Za-z0-9]{16,}"
_DASHED_BODY = r"[\w\-]{16,}"
_TOKEN = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    rf"(?:hf|api_org|gh[pousr]|gsk|r8|rpa|lin_api|ntn|secret|sbp|do[por]_v1|wandb_v1)_{_BODY}|"
    rf"(?:github_pat|dckr_[po]at|glsa|glc|shp(?:at|ca|pa|ss)|figd|nfp|whsec)_{_DASHED_BODY}|"
    rf"(?:(?:sk|GOCSPX|nvapi|tskey|PMAK|sq0[a-z]{{3}}|AGE-SECRET-KEY)-|GR1348941){_DASHED_BODY}|"
    rf"gl(?:pat|dt|ft|soat|rt|cbt|imt|ptt|agent|oas|ffct)-[\w\-.]{{16,}}|"
    rf"(?:hv[sbr]|dp\.[a-z]{{2,5}})\.{_DASHED_BODY}|ya29\.[\w\-.]{{16,}}|1//0[\w\-]{{20,}}|"
    r"(?:A3T[A-Z0-9]|ABIA|ACCA|AKIA|ASIA)[0-9A-Z]{16}|AKC[A-Za-z0-9]{16,}|"
    r"[srp]k_(?:live|test)_[0-9A-Za-z]{10,}|xox[a-z]-[\w\-.]{10,}|xapp-[\w\-]{10,}|"
    r"SG\.[\w\-]{16,}\.[\w\-]{16,}|AIza[\w\-]{30,}|npm_[A-Za-z0-9]{30,}|pypi-[\w\-]{30,}|"
    r"pul-[a-f0-9]{40}|dapi[a-f0-9]{32}|key-[a-f0-9]{32}|[a-f0-9]{32}-us\d{1,2}|"
    r"(?:AC|SK)[a-f0-9]{32}|ATATT[\w\-=]{20,}|\d{8,10}:[\w\-]{35}(?![\w\-])|"
    r"[MNO][A-Za-z\d_\-]{23,25}\.[\w\-]{6}\.[\w\-]{27,}|LS0tLS1CRUdJTi[\w+/=]{16,}|"
    r"eyJ[\w\-]{8,}\.[\w\-]{8,}\.[\w\-]*)"
)
_PRIVATE_KEY = re.compile(
    r"-----BEGIN[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:[^\0]*-----END[A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----|[^\0]*)"
    r"|PuTTY-User-Key-File-[^\0]*"
)
_WEBHOOK = re.compile(
    r"(hooks\.slack(?:-gov)?\.com/(?:services|workflows|triggers)/|discord(?:app)?\.com/api/"
    r"webhooks/|webhook\.office\.com/|logic\.azure\.com/|api\.telegram\.org/bot|/with/key/)"
    r"[^\s\0\"'<>]+"
)
_ANNOUNCED = re.compile(r"(\b(?:Bearer|IDENTIFIED\s+BY)\s+[\"']?)[^\s\0\"']+", re.IGNORECASE)
_USER_OPTION = re.compile(
    r"((?<![^\s\0\"'])(?:-u|-[A-Za-z]{1,4}u(?=[\s\0=])|--(?:proxy-)?user(?=[\s\0=]))[\s\0=]*)"
    r"(?!\d+:\d+(?:[\s\0]|\Z))(?:(?<=\0)[^\0:/\s]{1,64}:[^\0]+|\"[^\"\0:/]{1,64}:[^\"\0]+\"?|"
    r"'[^'\0:/]{1,64}:[^'\0]+'?|[^\s\0:/\"'=]{1,64}:[^\s\0]+)"
)
"""``curl -u user:password``; Docker's ``-u 1000:1000`` stays."""

_CHUNK = re.compile(r"[^\s\0]+")
_USER = re.compile(r"[^/?#:]*(?::|$)")
_USER_WITHOUT_SCHEME = re.compile(
    r"(?<![^\s\0\"'=])([\w.+\-]{1,64}):(?!\d{1,5}@)[^\s\0/@:\"']{1,256}@(?=[\w(\[])(?!sha\d)"
)
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


def mask_forms(text: str) -> str:
    """A text with the secrets that their own form gives away replaced by ``***``."""
    found = _PRIVATE_KEY.sub(MASK, text)
    found = _CHUNK.sub(lambda chunk: _without_users(chunk[0]), found)
    found = _USER_WITHOUT_SCHEME.sub(rf"{MASK}@", found)
    found = _WEBHOOK.sub(rf"\1{MASK}", _TOKEN.sub(MASK, found))
    found = _USER_OPTION.sub(rf"\1{MASK}", found)
    return _ANNOUNCED.sub(rf"\1{MASK}", found)


def _without_users(chunk: str) -> str:
    """Addresses without their users: all before the last ``@`` that is not part of a path."""
    scheme, *addresses = chunk.split("://")
    shown = []
    for address in addresses:
        user, at, host = address.rpartition("@")
        shown.append(f"{MASK}@{host}" if at and _USER.match(user) else address)
    return "://".join([scheme, *shown])


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


class Style(Enum):
    """What ends a value."""

    ARGUMENT = "\0"
    ELEMENT = "</"
    REST = "its own end for a string or a structure, else that of the argument"
    WORD = "a blank of a shell, or what separates commands, query parameters and settings"


_OPENING = "[({"


_MARKS = "\"'`"


_PLAIN = re.compile(rf"[^\s\0\\{_MARKS}\[({{,;&|]+")


_ESCAPES = re.compile(rf"(\\*)([{_MARKS}]?)")


_IN_STRUCTURE = re.compile(rf"(?<!\\)\\*[{_MARKS}]|[\[({{\])}}]")


_MARK = {mark: re.compile(rf"(?<!\\)\\*{mark}") for mark in _MARKS}


_NEW_NAME = r"\s*(?:\\*[\"'])?[\w.\-][\w.\- ]{0,60}(?:\\*[\"'])?\s*[:=]"


_AFTER_A_WORD = re.compile(
    rf"[\s\0]|,{_NEW_NAME}|;(?=[\s;\"']|\Z|{_NEW_NAME})|&(?=[\s&;\"']|\Z|{_NEW_NAME})|\|(?=[\s|])"
)


_AFTER_A_STRING = re.compile(r"[ \t]*(?:[,;\])}#&|\n]|\Z)")


def value_end(text: str, start: int, limit: int, style: Style, quote: str) -> int:
    """Where the value ends that begins at ``start``.

    Args:
        text: The text.
        start: Where the value begins.
        limit: Where its argument ends.
        style: What ends it.
        quote: The mark of the string that holds name and value; empty where none does.
    """
    if style in (Style.ARGUMENT, Style.ELEMENT):
        return _find(text, style.value, start, limit)
    if quote:
        limit = _string_end(text, quote, start, limit)
        limit -= len(quote) if text.endswith(quote, start, limit) else 0
    if style is Style.REST:
        end, is_whole = _part_end(text, start, limit, is_first=True)
        return end if is_whole and _AFTER_A_STRING.match(text, end, limit) else limit
    end = start
    while end < limit and not _AFTER_A_WORD.match(text, end, limit):
        end, _ = _part_end(text, end, limit, is_first=end == start)
    return end


def _part_end(text: str, start: int, limit: int, *, is_first: bool) -> tuple[int, bool]:
    """The end of a part of a value, and whether that is a whole string or structure."""
    if plain := _PLAIN.match(text, start, limit):
        return plain.end(), False
    if text.startswith(tuple(_OPENING), start, limit):
        return _structure_end(text, start, limit), True
    escapes = _ESCAPES.match(text, start, limit)
    slashes, mark = escapes.groups() if escapes else ("", "")
    after = start + len(slashes)
    if mark and text.startswith(mark * 3, after):
        return min(limit, _find(text, mark * 3, after + 3, limit) + 3), True
    if mark and (is_first or len(slashes) % 2 == 0):
        return _string_end(text, slashes + mark if is_first else mark, after + 1, limit), True
    return min(limit, max(start + 1, after + len(slashes) % 2)), False


def _string_end(text: str, opening: str, start: int, limit: int) -> int:
    """The end of a string: its mark behind as many backslashes as at its begin, not escaped."""
    for closing in _MARK[opening[-1]].finditer(text, start, limit):
        extra = len(closing[0]) - len(opening)
        if extra >= 0 and extra % (2 * len(opening)) == 0:
            return closing.end()
    return limit


def _structure_end(text: str, start: int, limit: int) -> int:
    depth, position = 0, start
    while found := _IN_STRUCTURE.search(text, position, limit):
        position = found.end()
        if found[0][-1] in _MARKS:
            position = _string_end(text, found[0], position, limit)
        else:
            depth += 1 if found[0] in _OPENING else -1
        if depth == 0:
            return position
    return limit


def _find(text: str, wanted: str, start: int, limit: int) -> int:
    found = text.find(wanted, start, limit)
    return limit if found < 0 else found
