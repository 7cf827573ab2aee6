"""The page for programs names only commands, options and fields that exist."""

import json
import re
import shlex

from typer.core import TyperGroup
from typer.main import get_command

from hvdprof import errors
from hvdprof.cli.main import build_app
from hvdprof.report.answers.json_schema import json_schema
from tests.builders.places import DOCS

PAGE = (DOCS / "SKILL.md").read_text(encoding="utf-8")
FIELDS = PAGE.split("## Which fields to trust\n", 1)[1].split("\n## ", 1)[0]
MOST_LINES = 60


def commands():
    for line in re.findall(r"`([^`]*)`", PAGE.split("\n## Which fields", 1)[0]):
        _, found, words = line.partition("hvdprof ")
        if found:
            yield shlex.split(words)
    for line in re.findall(r"^\$ hvdprof (.*?)(?: +#.*)?$", PAGE, flags=re.MULTILINE):
        yield shlex.split(line)


def test_it_is_short():
    assert len(PAGE.splitlines()) <= MOST_LINES


def test_every_command_and_option_exists():
    app = get_command(build_app())
    assert isinstance(app, TyperGroup)
    found = list(commands())
    assert len(found) > 10
    for name, *words in found:
        own = words[: words.index("--")] if "--" in words else words
        options = {one for parameter in app.commands[name].params for one in parameter.opts}
        assert {word for word in own if word.startswith("--")} <= options, name


def test_every_field_exists():
    schema = json.loads(json.dumps(json_schema()))
    names = re.findall(r"`([a-z_.]+)`", FIELDS)
    anywhere = {
        key
        for one in schema["$defs"].values()
        for part in (one, *one.get("properties", {}).values())
        for inner in (part, part.get("items", {}), *part.get("properties", {}).values())
        for key in inner.get("properties", {})
    }
    assert len(names) > 15
    for name in names:
        if name == "null":
            continue
        first, *rest = name.split(".")
        if not rest:
            assert first in anywhere, name
            continue
        place = schema["$defs"]["run_analysis"]["properties"][first]
        assert rest[0] in place["properties"], name


def test_the_exit_codes_are_those_of_the_errors():
    stated = set(map(int, re.findall(r"(?:^|· )(\d+) ", PAGE.split("## Exit codes")[1], re.M)))
    raised = {
        one.exit_code
        for one in vars(errors).values()
        if isinstance(one, type) and issubclass(one, errors.HvdprofError)
    }
    assert stated <= raised | {0}
    assert {20, 21, 22} <= stated
