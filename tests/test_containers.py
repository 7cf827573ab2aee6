"""The Dockerfiles are the steps of the Makefile, one is built where it can be; clusters."""

import os
import re
import shlex
import shutil
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


def buildah(*arguments: object) -> str:
    ended = subprocess.run(["buildah", *map(str, arguments)], capture_output=True, text=True)
    assert ended.returncode == 0, (ended.stdout + ended.stderr)[-5000:]
    return ended.stdout


@pytest.mark.install
@pytest.mark.timeout(7200)
def test_the_image_is_built_and_measures_two_ranks():
    base = os.environ.get("HVDPROF_IMAGE_BASE")
    if not base or shutil.which("buildah") is None:
        pytest.skip("needs buildah, and the name of a base in HVDPROF_IMAGE_BASE")
    text_of("Dockerfile")
    own = shlex.split(os.environ.get("HVDPROF_IMAGE_OPTIONS", ""))
    name = "localhost/hvdprof-of-a-test"
    build = ("build", "--pull-never", "--build-arg", f"BASE={base}", "--tag", name, *own, ROOT)
    try:
        buildah(*build)
        container = buildah("from", "--pull-never", name).strip()
        try:
            within = ("run", container, "--", "hvdprof")
            buildah(*within, "bench", "--preset", "quick", "--np", "1,2", "-o", "/data/run")
            verdict = buildah(*within, "analyze", "/data/run")
        finally:
            buildah("rm", container)
    finally:
        subprocess.run(["buildah", "rmi", name], capture_output=True)
    assert re.search(r"on 2 ranks: .* scaling efficiency", verdict), verdict


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
