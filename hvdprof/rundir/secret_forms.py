"""Secrets that need no name: tokens of known form, private keys, users in addresses, webhooks.

The table follows the plugins of detect-secrets (Yelp) and the rules of gitleaks; the libraries
themselves are not used, because what starts a job needs the standard library alone. Arguments of
a command are separated by NUL here, which none of them can hold.

Tested in ``tests/rundir/test_masking.py``.
"""

import re

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
