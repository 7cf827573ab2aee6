"""Command lines with a secret in each, in every notation that hvdprof masks.

``§`` stands for the secret. Tokens of known services are put together from parts, so that no
scanner takes this file for a leak.
"""

from dataclasses import dataclass

_B, _HEX = "a1B2" * 11, "0123456789abcdef" * 3
_PEM = "-----{} RSA PRIVATE KEY-----"

AUDITED: tuple[tuple[str, ...], ...] = (
    # Held before, and still have to.
    ("--api.key=§",),
    ("https://h/x?access_token=§&a=b",),
    ("a.b.api_key=§",),
    ("++a.api_key=§",),
    ("--env=WANDB_API_KEY=§",),
    ("-x", "HF_TOKEN=§"),
    ("--header", "Authorization: Bearer §"),
    ("-token", "§"),
    ('{"api_key": "§", "lr": 0.1}',),
    ("--config", "{'password':'X §'}"),
    ("sh", "-c", "export TOKEN=§; python t.py --api-key § --lr 1"),
    ("sh", "-c", "A=b TOKEN='X §' p.py"),
    ("PASSWORD=open §",),
    ("curl", "-H", "X-Api-Key: §"),
    ('{"Authorization": "Bearer §"}',),
    ("https://u:p/§@h/x.git",),
    ("https://§@h/x",),
    ("--password", "§"),
    ("SLURM_JWT=§",),
    ("MYSQL_PWD=§",),
    ("DB_PASS=§",),
    ("trainer.logger.api_key=§",),
    # Written readably, or in part, before.
    ("--pwd", "§"),
    ("--db", "Server=h;Uid=u;Pwd=§;Database=d"),
    ("--env", "A=1 pwd=§"),
    ('{"token":["§"]}',),
    ('{"token": ["a", "§"], "lr": 1}',),
    ('{"auth": {"user": "u", "x": "§"}}',),
    ('{"a": {"auth": {"b": {"c": ["d", "§"]}}}}',),
    ("-H", "Cookie: a=b; session=§"),
    ("-H", "Cookie: sid=a; c=§; d=§"),
    ("-H", "authorization: AB §"),
    ("sh", "-c", "curl -H 'authorization: AB §' h"),
    ("sh", "-c", "PGPASSWORD=abc\\ § psql h"),
    ("sh", "-c", "env TOKEN=$'a §' python t.py"),
    ("--config", "lr: 1\npassword: 'it''s §'\n"),
    ("--set", "TOKEN = §"),
    ("TOKEN", "=", "§"),
    ("ftp://u@h:§@h/x",),
    ("--tokens", "§"),
    ("--tokens", "abc", "§"),
    ("API_TOKENS=§",),
    ("https://a.blob.core.windows.net/c?sv=2022&sig=§%3D&se=1",),
    ("--creds", "§"),
    (_PEM.format("BEGIN") + "\nMII§\n" + _PEM.format("END"),),
    ("https://hooks.slack.com/services/T0/B0/§",),
    ("dckr_pat_§" + _B,),
    ("ya29.a0§" + _B,),
    ("SG.§abcdefgh.§" + _B,),
    ("curl", "-u", "user:§", "h"),
)
"""What an audit planted."""

OWN: tuple[tuple[str, ...], ...] = (
    # Names.
    ("--dbPassword=§",),
    ("x", "--clientSecret", "§"),
    ("DB_PASSWD=§",),
    ("rootpass=§",),
    ("--passcode", "§"),
    ("--otp=§",),
    ("PHPSESSID_SESSION_ID=§",),
    ("SLACK_WEBHOOK_URL=https://internal/§",),
    ("--wifi-psk", "§"),
    ("--ldap.bindpw=§",),
    ("x_csrf=§",),
    ("X-Amz-Signature=§",),
    ("--api-keys", "§", "§", "§"),
    ("AWS_ACCESS_KEY_ID=§",),
    ("OLDPWD=§",),
    ("PWD=§",),
    ("--PWD", "/§"),
    ("--db", "DSN=h;UID=u;PWD=/§"),
    ("DefaultEndpointsProtocol=https;AccountName=a;AccountKey=§==;EndpointSuffix=x",),
    ("Endpoint=sb://h/;SharedAccessKeyName=n;SharedAccessKey=§=",),
    # Shells.
    ("bash", "-c", 'ssh h "TOKEN=§ python t.py"'),
    ("bash", "-c", 'python t.py --token "a §" --lr 1'),
    ("bash", "-c", "python t.py --token \\\n  §"),
    ("bash", "-c", "x; TOKEN=a'b §'\"c §\" python"),
    ("bash", "-c", 'x; TOKEN+="a\\" §" python'),
    ("bash", "-c", "x; TOKEN=$(echo § | base64) python"),
    ("bash", "-c", "x; TOKEN=`echo §` python"),
    ("bash", "-c", "setenv API_TOKEN §; x"),
    ("bash", "-c", "set -gx API_TOKEN '§'"),
    ("bash", "-c", "printf 'machine h login u password §' > ~/.netrc"),
    ("bash", "-c", "x --tokens a § --lr 1"),
    ("bash", "-c", "curl --user 'admin:a §' h"),
    ("curl", "-uadmin:§", "h"),
    ("curl", "-sku", "admin:a §", "h"),
    ("curl", "--cookie", "a=b; c=§"),
    ("aws", "configure", "set", "aws_secret_access_key", "§"),
    ("git", "config", "--global", "user.token", "§"),
    ("docker", "run", "-eHF_TOKEN=§", "x"),
    ("psql", "-c", "CREATE USER u WITH PASSWORD '§'"),
    ("mysql", "-e", "CREATE USER u IDENTIFIED BY 'a§'"),
    ("env", "TOKEN=a", "python", "t.py", "token:", "§"),
    # Structures.
    ('{"name":"TOKEN","type":"x","value":"§"}',),
    ('set $x "token" "§";',),
    ('{"env": "{\\"token\\": \\"a §\\"}"}',),
    ('{\\"token\\": [\\"a]\\", \\"§\\"]}',),
    ('{"env": [{"name": "HF_TOKEN", "value": "§"}]}',),
    ('["--token", "§"]',),
    ('{"token":\n  "§"}',),
    ('{"token": "a\\"b §"}',),
    ("{token: a §, lr: 1}",),
    ("model={auth: {a: §}, lr: 1}",),
    ("lr: 1\ntoken: |\n  a\n  §\nx: 1",),
    ("auth:\n  user: u\n  x:\n  - §\nlr: 1",),
    ("tokens:\n- a\n- §\nlr: 1",),
    ("- name: HF_TOKEN\n  value: §\n",),
    ('token = """\na\n§\n"""\nlr = 1',),
    ("[db]\npassword = a §; b §\n",),
    ("<a><password>§</password></a>",),
    ('<add key="DbPassword" value="§" />',),
    ('<auth user="u" x="§"/>',),
    ("python", "-c", "os.environ['TOKEN'] = '§'; train()"),
    ("python", "-c", "login(token=f('§'), lr=1)"),
    ("python", "-c", 'setenv("API_KEY", "§")'),
    ("https://h/?next=%252Fx%253Ftoken%253D§",),
    ("https://h/?next=%2Fx%3Ftoken%3D§%26a%3Db",),
    ('Authorization: Digest username="u", response="§"',),
    ("redis://:a@b§@h:6379/0",),
    ("--dsn", "root:§@tcp(127.0.0.1:3306)/db"),
    ("--proxy", "socks5h://u:§/x@h:1"),
    # Tokens of known form: without a mark, the last word is the secret.
    ("hf_§" + _B,),
    ("ghp_§" + _B,),
    ("glpat-§" + _B,),
    ("AKIA" + "A1" * 8,),
    ("gsk_§" + _B,),
    ("hvs.§" + _B,),
    ("nvapi-§" + _B,),
    ("sk_" + "live_§" + _B,),
    ("shpat_§" + _B,),
    ("dapi" + _HEX[:32],),
    (_HEX[:32] + "-us12",),
    ("123456789:§" + "a" * 19,),
    ("https://discord.com/api/webhooks/1/§",),
    ("https://api.telegram.org/bot1:§/x",),
)
"""Those that hvdprof's own tests add."""

_PLACE = "§"


@dataclass(frozen=True)
class Planted:
    """A command line, and the secret in it that no file may hold."""

    words: tuple[str, ...]
    secret: str


def planted(lines: tuple[tuple[str, ...], ...] = AUDITED + OWN) -> list[Planted]:
    """The command lines with a secret of its own in each."""
    found = []
    for number, words in enumerate(lines):
        secret = f"Zq7wX2kLpR9v{number:03d}T" if _PLACE in "".join(words) else words[-1]
        found.append(Planted(tuple(word.replace(_PLACE, secret) for word in words), secret))
    return found
