"""The Dockerfiles are the steps of the Makefile, and recipes of clusters; none is built here."""

import os
import re
import subprocess
from itertools import pairwise

import pytest

from hvdprof.launch.plan.hosts import parse_hosts
from tests.builders.places import ROOT

MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
FILES = ("Dockerfile", "Dockerfile.cuda")
LAYERS = ["pip", "core", "horovod"]


def text_of(name):
    path = ROOT / name
    if not path.is_file():
        pytest.skip("an unpacked source distribution has no Dockerfile")
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", FILES)
def test_its_layers_are_steps_of_make_bench_in_their_order(name):
    layers = re.findall(r"^RUN make \.venv/\.hvdprof-(\w+)", text_of(name), flags=re.MULTILINE)
    assert layers == LAYERS
    rules = dict(re.findall(r"^\$\(VENV\)/\.hvdprof-(\w+): ?(.*)$", MAKEFILE, flags=re.MULTILINE))
    for before, after in pairwise(LAYERS):
        assert f".hvdprof-{before}" in rules[after]
    assert re.search(r"^bench: \$\(VENV\)/\.hvdprof-horovod", MAKEFILE, flags=re.MULTILINE)


@pytest.mark.parametrize("name", FILES)
def test_it_installs_what_the_makefile_would_ask_for(name):
    (installed,) = re.findall(r"apt-get install -y --no-install-recommends (.*) \\", text_of(name))
    page = (ROOT / "docs" / "start" / "install.md").read_text(encoding="utf-8")
    (asked,) = re.findall(r"`apt-get install -y --no-install-recommends (.*?)`", page)
    assert set(asked.split()) <= set(installed.split())


def test_the_one_for_gpus_says_that_it_is_untried():
    assert "UNTRIED" in text_of("Dockerfile.cuda").splitlines()[0]


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("LSB_MCPU_HOSTS", "a 4 b 2", "a:4,b:2"),
        ("PBS_NODEFILE", "a.cluster\nb.cluster\na.cluster\n", "a.cluster:2,b.cluster:1"),
    ],
)
def test_the_lines_that_read_the_hosts_of_batch_systems(tmp_path, variable, value, expected):
    page = (ROOT / "docs" / "howto" / "launchers.md").read_text(encoding="utf-8")
    (line,) = re.findall(rf'--hosts ("\$\(.*\b{variable}\b.*\)") -- python', page)
    if variable == "PBS_NODEFILE":
        (tmp_path / "nodes").write_text(value)
        value = str(tmp_path / "nodes")
    shell = ["sh", "-c", f"printf %s {line}"]
    hosts = subprocess.run(
        shell, env=os.environ | {variable: value}, check=True, capture_output=True, text=True
    ).stdout
    assert hosts == expected
    assert all(host.slots for host in parse_hosts(hosts))
