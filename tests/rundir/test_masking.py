import json
import time
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hvdprof.rundir.layout import RunPaths
from hvdprof.rundir.manifest import Manifest
from hvdprof.rundir.masking import mask_command, mask_text, mask_value, recorded_environment
from tests.builders.planted_secrets import planted

SECRET = "Zq7wX2kLpR9vT4"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("HOROVOD_SECRET_KEY", "abc", "***"),
        ("SLURM_JWT", "abc", "***"),
        ("MYSQL_PWD", "abc", "***"),
        ("DB_PASS", "abc", "***"),
        ("trainer.logger.api_key", "abc", "***"),
        ("HOROVOD_CYCLE_TIME", "1", "1"),
        ("HOROVOD_SECRET_KEY", "", ""),
        ("NCCL_X", "http://user:pw@host/x", "http://***@host/x"),
        ("PWD", "/home/me", "/home/me"),
        ("PWD", "abc", "***"),
        ("pwd", "/home/me", "***"),
        ("DB_PWD", "/home/me", "***"),
        ("NCCL_X", "https://h/c?sv=1&sig=abc%3D", "https://h/c?sv=1&sig=***"),
        ("API_TOKENS", "abc", "***"),
        ("backward_passes_per_step", "two", "two"),
        ("tokenizer", "gpt2", "gpt2"),
        ("max_tokens", "4096", "4096"),
        ("num_key_value_heads", "eight", "eight"),
        ("author", "Ada", "Ada"),
        ("use_auth", "true", "true"),
    ],
)
def test_values(name: str, value: str, expected: str) -> None:
    assert mask_value(name, value) == expected


def test_only_what_shapes_a_job_is_recorded() -> None:
    environment = {
        "HOME": "/h",
        "NCCL_DEBUG": "INFO",
        "HOROVOD_SECRET_KEY": "s",
        "OMP_X": "1",
        "SLURM_JWT": "s",
        "SLURM_CONF_SERVER": "controller",
        "SLURM_JOB_ID": "7",
        "SLURM_NTASKS_PER_NODE": "4",
        "SLURM_CPUS_PER_TASK": "2",
        "SLURM_STEP_NODELIST": "n[1-2]",
    }
    assert recorded_environment(environment) == {
        "HOROVOD_SECRET_KEY": "***",
        "NCCL_DEBUG": "INFO",
        "OMP_X": "1",
        "SLURM_CPUS_PER_TASK": "2",
        "SLURM_JOB_ID": "7",
        "SLURM_NTASKS_PER_NODE": "4",
        "SLURM_STEP_NODELIST": "n[1-2]",
    }


def test_commands() -> None:
    command = ["run", "API_KEY=abc", "--token", "abc", "--password=abc", "--np", "2", "A=b"]
    assert mask_command(command) == [
        *("run", "API_KEY=***", "--token", "***", "--password=***", "--np", "2", "A=b"),
    ]


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        (["--api.key=X1234", "--lr", "0.1"], ["--api.key=***", "--lr", "0.1"]),
        (["https://h/x?access_token=X1234&a=b"], ["https://h/x?access_token=***&a=b"]),
        (["a.b.api_key=X1234", "model=vgg"], ["a.b.api_key=***", "model=vgg"]),
        (["++a.api_key=X1234"], ["++a.api_key=***"]),
        (["--env=WANDB_API_KEY=X1234"], ["--env=WANDB_API_KEY=***"]),
        (["--env", "WANDB_API_KEY=X1234"], ["--env", "WANDB_API_KEY=***"]),
        (["-x", "HF_TOKEN=X1234", "train.py"], ["-x", "HF_TOKEN=***", "train.py"]),
        (["--header", "Authorization: Bearer X1234"], ["--header", "Authorization: Bearer ***"]),
        (["--header=Authorization: Bearer X1234"], ["--header=Authorization: Bearer ***"]),
        (["-token", "X1234"], ["-token", "***"]),
        (['{"api_key": "X1234", "lr": 0.1}'], ['{"api_key": "***", "lr": 0.1}']),
        (["--config", "{'password':'X 1234'}"], ["--config", "{'password':'***'}"]),
        (
            ["sh", "-c", "export TOKEN=X1234; python t.py --api-key X1234 --lr 1"],
            ["sh", "-c", "export TOKEN=***; python t.py --api-key *** --lr 1"],
        ),
        (["sh", "-c", "A=b TOKEN='X 1234' p.py"], ["sh", "-c", "A=b TOKEN='***' p.py"]),
        # A passphrase may have blanks: what begins as an assignment is masked to its end.
        (["PASSWORD=open sesame"], ["PASSWORD=***"]),
        (["curl", "-H", "X-Api-Key: X1234"], ["curl", "-H", "X-Api-Key: ***"]),
        (['{"Authorization": "Bearer X1234"}'], ['{"Authorization": "Bearer ***"}']),
        (["hf_" + "a1" * 12], ["***"]),
        (["ghp_" + "a1" * 12], ["***"]),
        (["AKIA" + "A1" * 8], ["***"]),
        (["git", "https://u:p/w@h/x.git"], ["git", "https://***@h/x.git"]),
        (["https://u@h/x"], ["https://***@h/x"]),
        (["http://h:80/x?a=b"], ["http://h:80/x?a=b"]),
        # What only looks like a secret, or is no value of one.
        (["--use-auth", "--lr", "0.1"], ["--use-auth", "--lr", "0.1"]),
        (["--num-keys", "8"], ["--num-keys", "8"]),
        (["--tokenizer", "gpt2"], ["--tokenizer", "gpt2"]),
        (["monkey.py", "--data", "/keys"], ["monkey.py", "--data", "/keys"]),
        (["basic", "training"], ["basic", "training"]),
    ],
)
def test_forms_of_secrets(command: list[str], expected: list[str]) -> None:
    assert mask_command(command) == expected


@pytest.mark.heavy
def test_no_notation_leaves_the_secret(tmp_path: Path) -> None:
    left, changed = [], []
    for one in planted():
        masked = mask_command(one.words)
        manifest = Manifest.of_files("x")
        manifest.settings = {"data_dir": "d", "script": {"command": one.words}}
        manifest.options = {"np": [1], "command": one.words, "env": one.words}
        manifest.write(RunPaths(tmp_path))
        written = RunPaths(tmp_path).manifest.read_text()
        if one.secret in "\n".join(masked) or one.secret in written:
            left.append(one.words)
        if len(masked) != len(one.words) or mask_command(masked) != masked:
            changed.append(one.words)
    assert (left, changed) == ([], [])


@pytest.mark.parametrize(
    "line",
    [
        "--token-length 128 --token-length 4096 --num-tokens 5 --num_tokens 50000",
        "--max_tokens=4096 --max-new-tokens 16384 --tokens-per-batch auto --tokens 300B train.py",
        "--tokens=2000000000 --train_tokens 1e9 --pad-token <pad> --eos-token-id 50256",
        "--token-embedding-dim 768 --token_mixer pooling --tokenizer_name=meta-llama/Llama-3",
        "--num-keys 65536 --key-dim 1024 --image-key jpg --label-key cls --key 7",
        "--auth-type basic --keyword x --bypass-cache yes --forward-pass fast --sigma 0.5",
        "--patience 3 --path-to data --pattern a.*b --passes 3 --password-length 12",
        "--signal USR1 --monkey business --key_value_heads eight --hosts a:2,b:4",
        "python -u -m torch.distributed.run -u train.py",
        "docker run -u 1000:1000 --image repo/img:1.0@sha256:0123456789abcdef",
        "https://h/@user/post s3://bucket/keys/a.tar git@github.com:org/repo.git",
        "PWD=/path",
        "env PWD=/path OLDPWD=/a/b python t.py --env PWD=/path --env=PWD=/path",
        "--seed 12345678 --run-name monkey-token-ablation --wandb-project token-study",
        '{"tokenizer":"gpt2","max_tokens":4096,"use_auth":true}',
        '["--use-auth","--lr","0.1","--token-length","128"]',
    ],
)
def test_ordinary_arguments_stay_readable(line: str) -> None:
    assert mask_command(line.split(" ")) == line.split(" ")


@pytest.mark.parametrize(
    "text",
    [
        "cd /x; python train.py --tokenizer gpt2 --max-tokens 4096 | tee log && echo 'done'",
        "PWD=/data/x python train.py --lr 0.1",
        "lr: 0.1\ntokenizer:\n  name: gpt2\nmax_tokens: 4096\n",
    ],
)
def test_ordinary_texts_stay_readable(text: str) -> None:
    assert mask_text(text) == text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"token": ["a", "X"], "lr": 1}', '{"token": ***, "lr": 1}'),
        ("x; python t.py --tokens X Y --lr 1", "x; python t.py --tokens *** --lr 1"),
        ('x; echo "TOKEN=X Y" --lr 1', 'x; echo "TOKEN=***" --lr 1'),
        (
            'mpirun sh -c "t.py --token=X" && echo "done"',
            'mpirun sh -c "t.py --token=***',
        ),
        ("lr: 1\nauth:\n  - X\n  - Y\nx: 1", "lr: 1\nauth:***"),
        ("Server=h;Pwd=X;Database=d", "Server=h;Pwd=***;Database=d"),
        ("{token: X Y, lr: 1}", "{token: ***"),
        ("a=(TOKEN=X) b", "a=(TOKEN=*** b"),
        # Without an end of its own, a value is taken for the rest of the argument.
        ('{"token": ["a", "X, "lr": 1}', '{"token": ***'),
        ("x; TOKEN='a X y", "x; TOKEN=***"),
    ],
)
def test_what_follows_a_secret_stays(text: str, expected: str) -> None:
    assert mask_text(text) == expected


@pytest.mark.heavy
@given(st.lists(st.text(st.sampled_from("key=:;,&|\"'`\\[]{}()<>-u \n\t\0aT@/"), max_size=30)))
@example(["key", "="])
def test_any_text_is_masked_once_and_keeps_its_arguments(words: list[str]) -> None:
    masked = mask_command(words)
    assert len(masked) == len(words)
    assert mask_command([]) == []


@given(
    name=st.sampled_from(["TOKEN", "api_key", "db.password", "Auth-Secret"]),
    form=st.sampled_from(
        [
            "{name}={value}",
            "--{name}={value}",
            "export {name}={value} && x",
            "http://h/?a=1&{name}={value}",
            "x --{name} {value} y",
            '--set={{"{name}": "{value}"}}',
        ]
    ),
)
def test_no_form_leaves_the_secret(name: str, form: str) -> None:
    assert SECRET not in mask_text(form.format(name=name, value=SECRET))


def test_masking_twice_changes_nothing() -> None:
    text = json.dumps({"token": SECRET, "url": f"https://u:{SECRET}@h/?key={SECRET}"})
    assert mask_text(mask_text(text)) == mask_text(text)


PIECES = (
    *("a", "a.", "a-", "=", "://", "--a ", "a:b@", "eyJ", '"', "\\", "://u:", " ", "\0"),
    *("key=a ", "key=", 'key="', "key='a' ", "key: a, b: ", "{key:", "key:[", "key={}"),
    *("key\n: a\n", "key: a\n  ", "--keys a ", 'key\\"=', "key=\\", 'key=a" ', "<key "),
    *("name: key, value: ", "-----BEGIN PRIVATE KEY-----", "Bearer ", "-u a:", "\0--key"),
    *("set key ", "key=a;", '"key",', "'key=a\"", "key:|\n ", "[key=a]", "Cookie:", "max_"),
)


@pytest.mark.heavy
def test_a_long_argument_takes_no_time_of_its_square() -> None:
    slow = []
    for piece in PIECES:
        short, long = (_seconds(piece * number) for number in (1_000, 10_000))
        if long >= 40 * short + 0.1:
            slow.append((piece, short, long))
    assert slow == []


def _seconds(text: str) -> float:
    began = time.process_time()
    mask_text(text)
    return time.process_time() - began
