"""What processes of tests leave out at their start changes nothing but their processor time."""

import json
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.builders.lean_start.warm_proxy import VARIABLE
from tests.builders.places import LEAN_START, ROOT
from tests.builders.processes import is_running
from tests.builders.running_command import wait_for

RANK = """
import gc, importlib.util, sys
assert importlib.util.find_spec("torch") and gc.isenabled()
import torch
assert gc.isenabled()
began_without = not hasattr(sys.modules["torch._meta_registrations"], "register_meta")
torch.Generator().manual_seed(0)
import {module}
torch.Generator().manual_seed(0)
print(began_without, hasattr(sys.modules["torch._meta_registrations"], "register_meta"))
print(*torch.linalg.lu_factor(torch.empty(4, 4, device="meta"))[0].shape)
"""

UTIL = """
asked = 0
def _check_extension_lambda(extension, fn, feature, verbose):
    global asked
    asked += 1
    return fn(extension)
def gloo_built():
    return _check_extension_lambda("torch", lambda extension: extension == "torch", "Gloo", False)
"""


SPARK = ("pyspark.daemon", "pyspark.worker")


def printed(*command: str, path: Path, state: Path) -> list[str]:
    done = subprocess.run(
        [sys.executable, *command],
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(LEAN_START), str(path)]),
            "XDG_STATE_HOME": str(state),
        },
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.mark.torch
@pytest.mark.parametrize(
    "module", ["torch._dynamo", "torch.distributed.tensor", "hvdprof.bench_models.emulated"]
)
def test_what_asks_for_operators_without_data_gets_them(module: str, tmp_path: Path) -> None:
    lines = printed("-c", RANK.format(module=module), path=ROOT, state=tmp_path)
    assert lines == ["True True", "4 4"]


TRAINS = """
import sys
import torch
weight = torch.nn.Parameter(torch.ones(2))
optimizer = torch.optim.SGD([weight], lr=0.5, momentum=0.9)
weight.sum().backward()
optimizer.step()
optimizer.zero_grad()
print(weight.tolist(), "torch._dynamo.eval_frame" in sys.modules)
"""

ASKS = {
    "attribute": "print(torch._dynamo.config.optimize_ddp)",
    "module": "from torch._dynamo import utils\nprint(utils.counters == {})",
    "first-import": "import torch._dynamo.utils as one\nprint(one is torch._dynamo.utils)",
    "compiler": "print(torch.compile(lambda x: x > 0, backend='eager')(weight).sum().item() == 2)",
}


@pytest.mark.torch
def test_an_optimizer_and_ddp_train_without_the_compiler(tmp_path: Path) -> None:
    rank = """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
dist.init_process_group("gloo", init_method="file://{file}", rank=0, world_size=1)
model = DistributedDataParallel(torch.nn.Linear(2, 1, bias=False))
model(torch.ones(1, 2)).sum().backward()
dist.destroy_process_group()
print(model.module.weight.grad.tolist(), "torch._dynamo.eval_frame" in sys.modules)
"""
    script = TRAINS + rank.format(file=tmp_path / "ranks")
    lines = printed("-c", script, path=ROOT, state=tmp_path)
    assert lines == ["[0.5, 0.5] False", "[[1.0, 1.0]] False"]


@pytest.mark.torch
@pytest.mark.parametrize("asks", ASKS.values(), ids=ASKS)
def test_what_asks_for_the_compiler_gets_it(asks: str, tmp_path: Path) -> None:
    end = "print('torch._dynamo.eval_frame' in sys.modules, type(torch._dynamo).__name__)"
    lines = printed("-c", f"{TRAINS}{asks}\n{end}", path=ROOT, state=tmp_path)
    assert lines == ["[0.5, 0.5] False", "True", "True module"]


def test_horovodrun_asks_once_what_an_extension_was_built_with(tmp_path: Path) -> None:
    package = tmp_path / "horovod" / "common"
    package.mkdir(parents=True)
    for folder in (package.parent, package):
        (folder / "__init__.py").touch()
    (package / "util.py").write_text(UTIL)
    command = tmp_path / "horovodrun"
    command.write_text("from horovod.common import util\nprint(util.gloo_built(), util.asked)\n")
    state = tmp_path / "state"
    assert printed(str(command), path=tmp_path, state=state) == ["True 1"]
    assert printed(str(command), path=tmp_path, state=state) == ["True 0"]
    (answer,) = state.iterdir()
    assert json.loads(answer.read_text()) is True


def test_a_host_is_asked_again_for_its_horovod_once_a_file_has_changed(tmp_path: Path) -> None:
    module = tmp_path / "asked.py"
    question = (
        "-P",
        "-c",
        "import asked, json; print('hvdprof-horovod-build:' + json.dumps("
        "{'version': asked.version, 'files': {asked.__file__: []}}))",
    )
    module.write_text("version = 1\n")
    first = printed(*question, path=tmp_path, state=tmp_path / "state")
    (answer,) = (tmp_path / "state").iterdir()
    remembered = answer.read_text()
    # Proves that it is read: the module would say 1.
    answer.write_text(remembered.replace('\\"version\\": 1', '\\"version\\": 7'))
    (again,) = printed(*question, path=tmp_path, state=tmp_path / "state")
    assert first == [again.replace("7", "1", 1)] != [again]
    module.write_text("version = 10\n")
    (changed,) = printed(*question, path=tmp_path, state=tmp_path / "state")
    assert '"version": 10' in changed


def test_the_process_that_spark_forks_has_horovod_for_spark(tmp_path: Path) -> None:
    for package in ("horovod", "horovod/spark", "pyspark"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    text = "import sys\nprint(sys.argv[1], 'horovod.spark' in sys.modules)\n"
    for module in ("daemon", "worker"):
        (tmp_path / "pyspark" / f"{module}.py").write_text(text)
    ran = [printed("-m", name, "x", path=tmp_path, state=tmp_path) for name in SPARK]
    assert ran == [["x True"], ["x False"]]


SEEN = """
import os, signal, sys, threading
from pathlib import Path
before = [name for name in sys.modules if name.startswith(("torch", "horovod"))]
import {first}
import torch
after = sorted(name for name in sys.modules if name.startswith("horovod"))
own = Path("/proc/self")
print(sys.argv, sys.path, sys.orig_argv, __file__, __name__, Path.cwd(), before, after)
variables = ["%s=%s" % pair for pair in os.environ.items()]
print((own / "environ").read_text().split("\\0") == [*variables, ""])
print((own / "cmdline").read_text(), (own / "comm").read_text(), sys.stdin.read())
print(os.umask(0), os.sched_getaffinity(0), torch.get_num_threads(), threading.active_count())
print([signal.getsignal(number) for number in (signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)])
print(sys._getframe().f_back, sys.stdout.write_through, sorted(globals()), torch.__spec__.origin)
import horovod.torch
print(HOOKED, sorted(name for name in sys.modules if name.startswith(("torch", "horovod"))))
"""

HOOK = """
import builtins, sys
builtins.HOOKED = []
class Finder:
    def find_spec(self, name, *_):
        if name in ("torch", "torch.distributed.distributed_c10d", "horovod.torch"):
            HOOKED.append(name)
sys.meta_path.insert(0, Finder())
import runpy
runpy.run_path({lean!r})
"""

ENDS = """
import os, sys
import torch
def fail():
    raise RuntimeError("on purpose")
exec(sys.argv[1])
"""

WAITS = """
import os, signal, sys, time
import torch
signal.signal(signal.SIGUSR1, lambda *_: print("signal", flush=True))
print(os.getpid(), flush=True)
time.sleep(600)
"""


NAMESPACES = """
import json, os, socket, sys
import torch
names = {kind: os.readlink(f"/proc/self/ns/{kind}") for kind in ("net", "uts", "mnt")}
print(json.dumps(names))
print(json.dumps([name for _, name in socket.if_nameindex()]))
print(json.dumps(os.getgroups()))
print(json.dumps(os.getpid()), flush=True)
os.close(1)
sys.stdin.read()
"""


APART = ("unshare", "--net", "--uts", "--mount")


@pytest.fixture
def script(tmp_path: Path) -> Path:
    return tmp_path / "script.py"


def begun(
    script: Path, *arguments: str, warm: bool, under: tuple[str, ...] = (), **variables: str
) -> "subprocess.Popen[str]":
    environment = {**os.environ, **variables}
    assert environment[VARIABLE]
    if not warm:
        del environment[VARIABLE]
    return subprocess.Popen(
        [*under, sys.executable, script.name, *arguments],
        cwd=script.parent,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ended(*arguments: object, **named: object) -> tuple[object, ...]:
    process = begun(*arguments, **named)
    return (*process.communicate("input", timeout=120), process.returncode)


@pytest.mark.horovod
@pytest.mark.warm
@pytest.mark.parametrize(
    ("first", "variables"),
    [("torch", {}), ("horovod.torch", {"OMP_NUM_THREADS": "1", "PYTHONUNBUFFERED": "1"})],
)
def test_a_fork_is_as_a_process_of_its_own(
    script: Path, tmp_path: Path, first: str, variables: dict[str, str]
) -> None:
    script.write_text(SEEN.format(first=first))
    (tmp_path / "hook").mkdir()
    lean = str(LEAN_START / "sitecustomize.py")
    (tmp_path / "hook" / "sitecustomize.py").write_text(HOOK.format(lean=lean))
    path = os.pathsep.join([str(tmp_path / "hook"), os.environ["PYTHONPATH"]])
    warm, cold = (
        ended(script, "a b", warm=one, PYTHONPATH=path, **variables) for one in (True, False)
    )
    assert warm == cold
    assert cold[1:] == ("", 0)
    hooked = ["torch", "torch.distributed.distributed_c10d", "horovod.torch"]
    assert f"\n{sorted(hooked, key=first.__ne__)}" in cold[0]


@pytest.mark.horovod
@pytest.mark.warm
@pytest.mark.parametrize(
    "end",
    [
        "sys.exit('message')",
        "fail()",
        "raise KeyboardInterrupt",
        "os.kill(os.getpid(), 9)",
        "import atexit; atexit.register(print, 'last')",
        "import threading; threading.Timer(0.2, print, ['thread']).start()",
        "opened = open('/dev/stderr', 'w'); opened.write('not closed')",
        "import ctypes; ctypes.CDLL(None).puts(b'of C')",
        "sys.exit(259)",
    ],
)
def test_a_fork_ends_as_a_process_of_its_own(script: Path, end: str) -> None:
    script.write_text(ENDS)
    assert ended(script, end, warm=True) == ended(script, end, warm=False)


@pytest.mark.horovod
@pytest.mark.warm
def test_signals_are_passed_on_and_a_killed_process_takes_its_fork_along(script: Path) -> None:
    script.write_text(WAITS)
    process = begun(script, warm=True)
    fork = int(process.stdout.readline())
    assert fork != process.pid
    process.send_signal(signal.SIGUSR1)
    assert process.stdout.readline() == "signal\n"
    process.kill()
    process.communicate(timeout=60)
    wait_for(lambda: not is_running(fork), seconds=60)


@pytest.mark.horovod
@pytest.mark.warm
def test_a_process_under_other_conditions_begins_cold(script: Path) -> None:
    script.write_text("import os\nimport torch\nprint(os.getpid())\n")

    def is_cold(**variables: str) -> bool:
        process = begun(script, warm=True, **variables)
        stdout, stderr = process.communicate(timeout=120)
        assert (stderr, process.returncode) == ("", 0)
        return int(stdout) == process.pid

    assert not is_cold()
    assert is_cold(OMP_PROC_BIND="true")
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (1 if soft != 1 else 2, hard))
    try:
        assert is_cold()
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


@pytest.mark.horovod
@pytest.mark.warm
@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")
def test_a_fork_is_in_the_namespaces_and_groups_of_the_process(script: Path) -> None:
    script.write_text(NAMESPACES)
    process = begun(script, warm=True, under=("setpriv", "--groups=0,7", *APART))
    assert process.stdout is not None
    names, interfaces, groups, pid = map(json.loads, process.stdout)
    assert int(pid) != process.pid
    own = {kind: str(Path(f"/proc/{process.pid}/ns/{kind}").readlink()) for kind in names}
    process.communicate("end", timeout=60)
    assert names == own
    assert not [kind for kind in own if own[kind] == str(Path(f"/proc/self/ns/{kind}").readlink())]
    assert interfaces == ["lo"]
    assert groups == [0, 7]


COMMAND_HOOK = """
import atexit, runpy, sys
atexit.register(lambda: print("tests.builders.warm_modules" in sys.modules))
runpy.run_path({lean!r})
"""


@pytest.mark.horovod
@pytest.mark.warm
@pytest.mark.parametrize(
    ("program", "command"),
    [
        ([sys.executable, "-m", "hvdprof"], "analyze t.csv"),
        ([sys.executable, "-m", "hvdprof"], "analyze nowhere"),
        ([str(Path(sys.executable).with_name("hvdprof"))], "analyze --bogus"),
    ],
)
def test_a_command_is_forked_and_does_what_its_own_process_does(
    tmp_path: Path, program: list[str], command: str
) -> None:
    (tmp_path / "t.csv").write_text("np,samples/s\n1,100\n2,190\n")
    lean = str(LEAN_START / "sitecustomize.py")
    (tmp_path / "sitecustomize.py").write_text(COMMAND_HOOK.format(lean=lean))
    path = os.pathsep.join([str(tmp_path), os.environ["PYTHONPATH"], str(ROOT)])

    def ended_with(address: dict[str, str]) -> tuple[list[str], str, int]:
        environment = {name: os.environ[name] for name in os.environ if name != VARIABLE}
        done = subprocess.run(
            [*program, *command.split()],
            cwd=tmp_path,
            env={**environment, "PYTHONPATH": path, **address},
            capture_output=True,
            text=True,
            timeout=120,
        )
        return done.stdout.splitlines(), done.stderr, done.returncode

    stdout, *forked = ended_with({VARIABLE: os.environ[VARIABLE]})
    own_stdout, *own = ended_with({})
    assert forked == own
    assert stdout == [*own_stdout[:-1], "True"]
    assert own_stdout[-1] == "False"


@pytest.mark.horovod
def test_ranks_of_other_tests_begin_cold() -> None:
    assert VARIABLE not in os.environ
