# ruff: noqa: E501  (lines of logs are as long as they are)
"""Every declared format reads its lines, behind any prefix and cut anywhere."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hvdprof.ingest.logs.printed_file import read_printed_file
from hvdprof.ingest.rates.formats import RATE_FORMATS
from hvdprof.rundir.failures.log_prefixes import without_colours
from tests.builders.examples import examples
from tests.builders.log_prefixes import PREFIXES

Row = tuple[str, str, str, bool, Any, int | None, int | None]
"""Tool, unit, what it is per, whether a running mean, rate, iteration, data wait in us."""

SAMPLES: dict[str, tuple[str, list[Row]]] = {
    "tf_cnn": (
        "10\timages/sec: 101.5 +/- 0.4 (jitter = 0.2)\t8.0\ntotal images/sec: 202.00\n",
        [
            ("tf_cnn_benchmarks", "samples/s", "rank", True, 101.5, 10, None),
            ("tf_cnn_benchmarks", "samples/s", "job", False, 202.0, None, None),
        ],
    ),
    "synthetic": (
        "Iter #3: 147.6 img/sec per GPU\nImg/sec per GPU: 146.9 +-1.4\nTotal img/sec on 4 GPU(s): 587.6 +-5.6\n",
        [
            ("synthetic_benchmark", "samples/s", "rank", False, 147.6, 3, None),
            ("synthetic_benchmark", "samples/s", "rank", False, 146.9, None, None),
            ("synthetic_benchmark", "samples/s", "job", False, 587.6, None, None),
        ],
    ),
    "throughput lines": (
        "Throughput: 1996.5 images/s on average, Num of GPUs: 8\n",
        [("other", "samples/s", "job", False, 1996.5, None, None)],
    ),
    "tf_cnn behind its command": (
        "run `mpirun -np 8 -H localhost:8`, result is `total images/sec: 1193.40`\n",
        [("tf_cnn_benchmarks", "samples/s", "job", False, 1193.4, None, None)],
    ),
    "prose": (
        "32GPUs(4nodes): 80 images/s\n",
        [("other", "samples/s", "job", False, 80.0, None, None)],
    ),
    "openpcdet": (
        "INFO  Train:    1/3 ( 33%) [  49/323 ( 15%)]  Loss: 36.77 (81.7)  LR: 1.351e-04  Time cost: 00:15/01:25 [00:15/04:48]  Acc_iter 50          Data time: 0.01(0.02)  Forward time: 0.31(0.29)  Batch time: 0.25(0.50)\n",
        [
            ("OpenPCDet", "steps/s", "", False, 4.0, 49, 10_000),
            ("OpenPCDet", "steps/s", "", True, 2.0, 49, 20_000),
        ],
    ),
    "openclip": (
        "Train Epoch: 1 [ 32833536/407371776 (8%)] Loss: 0.40883 (0.4749) Data (t): 0.080 Batch (t): 1.762s, 37194/s LR: 0.000156 Logit Scale: 100.000\n",
        [("OpenCLIP", "samples/s", "job", False, 37194.0, None, 80_000)],
    ),
    "maskrcnn": (
        "INFO: eta: 11:21:28  iter: 1120  loss: 1.4617 (1.4511)  time: 0.5000 (0.2500)  data: 0.0164 (0.0177)  lr: 0.020000  max mem: 3150\n",
        [
            ("maskrcnn-benchmark", "steps/s", "", False, 2.0, 1120, 16_400),
            ("maskrcnn-benchmark", "steps/s", "", True, 4.0, 1120, 17_700),
        ],
    ),
    "cifar10": (
        "2017-03-15 19:27:40.337271: step 1790, loss = 1.53 (1725.5 examples/sec; 0.074 sec/batch)\n",
        [("TensorFlow CIFAR-10 tutorial", "samples/s", "job", False, 1725.5, 1790, None)],
    ),
    "openseq2seq": (
        "Global step 73968: loss = 1.0840, time per step = 0:00:1.250\n",
        [("OpenSeq2Seq", "steps/s", "", False, 0.8, None, None)],
    ),
    "fairseq json": (
        '{"epoch": 27, "update": 26.267, "loss": "8.206", "wps": "1195.4", "ups": "1.62", "wpb": "738.1", "bsz": "46.4", "num_updates": "33700", "lr": "0.00017226", "wall": "30542"}\n',
        [("fairseq", "tokens/s", "job", False, 1195.4, 33700, None)],
    ),
    "fairseq of 2018": (
        "| epoch 010  2000 / 8223 loss=1.27 (1.50), wps=962, wpb=908, bsz=32, lr=0.001, clip=100%, gnorm=2.1427\n",
        [("fairseq", "tokens/s", "job", True, 962.0, 2000, None)],
    ),
    "fairseq bars without returns": (
        "| epoch 017:  40%|##| 14/35 [00:16<00:24,  1.17s/it, loss=11.8, wps=2330, ups=0.2, cl| epoch 017:  43%|##| 15/35 [00:17<00:24,  1.23s/it, loss=11.8, wps=2350, ups=0.3, cl\n",
        [
            ("fairseq", "tokens/s", "job", True, 2330.0, 14, None),
            ("fairseq", "tokens/s", "job", True, 2350.0, 15, None),
        ],
    ),
    "timm": (
        "Train: 0 [  50/1251 (  4%)]  Loss: 6.93 (6.94)  Time: 0.402s, 2547.26/s  (0.483s, 2120.08/s)  LR: 1.000e-06  Data: 0.011 (0.074)\n",
        [
            ("timm", "samples/s", "job", False, 2547.26, 50, 11_000),
            ("timm", "samples/s", "job", True, 2120.08, 50, 74_000),
        ],
    ),
    "imagenet": (
        "Epoch: [0][ 20/5005]\tTime  0.250 ( 0.500)\tData  0.001 ( 0.162)\tLoss 7.00e+00 (7.01e+00)\tAcc@1   0.39 (  0.07)\n",
        [
            ("PyTorch ImageNet example", "steps/s", "", False, 4.0, 20, 1_000),
            ("PyTorch ImageNet example", "steps/s", "", True, 2.0, 20, 162_000),
        ],
    ),
    "torchvision": (
        "Epoch: [0]  [  10/1252]  eta: 0:08:16  lr: 0.1  img/s: 812.3  loss: 7.0391 (7.0451)  acc1: 0.0 (0.1)  time: 0.4000  data: 0.0100  max mem: 5012\n",
        [("torchvision", "steps/s", "", False, 2.5, 10, 10_000)],
    ),
    "mmengine": (
        "07/03 13:04:17 - mmengine - INFO - Epoch(train)  [1][ 10/196]  lr: 3.3333e-04  eta: 0:13:14  time: 0.4000  data_time: 0.0335  memory: 970  loss: 6.1887\n",
        [("OpenMMLab", "steps/s", "", False, 2.5, 10, 33_500)],
    ),
    "mmengine by iterations": (
        "07/03 13:04:17 - mmengine - INFO - Iter(train) [  50/90000]  base_lr: 1.0e-02 lr: 1.0e-02  eta: 1 day, 0:13:14  time: 0.4000  data_time: 0.0335  memory: 970  loss: 6.1887\n",
        [("OpenMMLab", "steps/s", "", False, 2.5, 50, 33_500)],
    ),
    "mmcv": (
        "2021-06-01 10:00:00,000 - mmdet - INFO - Epoch [1][50/7330]\tlr: 1.978e-03, eta: 10:10:10, time: 0.400, data_time: 0.050, memory: 3901, loss: 3.1\n",
        [("OpenMMLab", "steps/s", "", False, 2.5, 50, 50_000)],
    ),
    "detectron2": (
        "[03/01 10:00:00 d2.utils.events]:  eta: 1:12:03  iter: 19  total_loss: 1.84  loss_cls: 0.9    time: 0.2500  last_time: 0.2000  data_time: 0.0100  last_data_time: 0.0040   lr: 0.0003  max_mem: 2600M\n",
        [
            ("Detectron2", "steps/s", "", False, 5.0, 19, 4_000),
            ("Detectron2", "steps/s", "", True, 4.0, 19, None),
        ],
    ),
    "detectron2 of 2020": (
        "[03/01 10:00:00 d2.utils.events]:  eta: 1:12:03  iter: 19  total_loss: 1.84  loss_cls: 0.9  time: 0.2500  data_time: 0.0100  lr: 0.0003  max_mem: 2600M\n",
        [("Detectron2", "steps/s", "", True, 4.0, 19, None)],
    ),
    "keras": (
        "1875/1875 [==============================] - 3s 2ms/step - loss: 0.2206 - accuracy: 0.9345\n",
        [("Keras", "steps/s", "", True, 500.0, 1875, None)],
    ),
    "keras 3": (
        "\x1b[1m 782/1875\x1b[0m \x1b[32m━━━━━━━━\x1b[0m\x1b[37m━━━━━━━━━━━━\x1b[0m \x1b[1m2s\x1b[0m 2s/step - accuracy: 0.9345\n",
        [("Keras", "steps/s", "", True, 0.5, 782, None)],
    ),
    "lightning": (
        "Epoch 0:  12%|█▏        | 10/80 [00:05<00:35,  2.00it/s, v_num=0, train_loss=2.3]\n",
        [("Lightning", "steps/s", "", True, 2.0, 10, None)],
    ),
    "lightning, slow": (
        "Epoch 0:  12%|█▏        | 10/80 [00:20<02:20,  2.00s/it, v_num=0, train_loss=2.3]\n",
        [("Lightning", "steps/s", "", True, 0.5, 10, None)],
    ),
    "tqdm": (
        "  1%|          | 1/80 [00:05<06:35,  5.00s/it]\r  2%|▎         | 2/80 [00:06<03:35,  2.50it/s]\r  4%|▍         | 3/80 [00:06<00:35,  4.00it/s]\n",
        [
            ("tqdm", "steps/s", "", False, 0.2, 1, None),
            ("tqdm", "steps/s", "", False, 2.5, 2, None),
            ("tqdm", "steps/s", "", False, 4.0, 3, None),
        ],
    ),
    "hugging face": (
        "{'train_runtime': 612.4, 'train_samples_per_second': 208.9, 'train_steps_per_second': 1.63, 'train_loss': 1.21, 'epoch': 3.0}\n",
        [("Hugging Face Trainer", "samples/s", "job", False, 208.9, None, None)],
    ),
    "composer": (
        "[batch=12/4800]:\n\t Train throughput/batches_per_sec: 0.3341\n\t Train throughput/samples_per_sec: 171.0625\n\t Train throughput/device/samples_per_sec: 42.7656\n\t Train throughput/tokens_per_sec: 175107.6719\n\t Train throughput/device/tokens_per_sec: 43776.9180\n\t Train trainer/device_train_microbatch_size: 16\n",
        [
            ("Composer", "samples/s", "job", False, 171.0625, None, None),
            ("Composer", "samples/s", "rank", False, 42.7656, None, None),
            ("Composer", "tokens/s", "job", False, 175107.6719, None, None),
            ("Composer", "tokens/s", "rank", False, 43776.918, None, None),
        ],
    ),
    "tf.estimator": (
        "INFO:tensorflow:global_step/sec: 5.30212\nINFO:tensorflow:loss = 2.3, step = 100 (1.9 sec)\n",
        [("tf.estimator", "steps/s", "", False, 5.30212, None, None)],
    ),
    "deepspeed": (
        "[2026-03-11 02:06:58,985] [INFO] [timer.py:264:stop] epoch=0/micro_step=40/global_step=10, RunningAvgSamplesPerSec=83.4, CurrSamplesPerSec=84.0, MemAllocated=0.26GB, MaxMemAllocated=9.02GB\n",
        [
            ("DeepSpeed", "samples/s", "job", False, 84.0, 10, None),
            ("DeepSpeed", "samples/s", "job", True, 83.4, 10, None),
        ],
    ),
    "deepspeed of 2022": (
        "[2022-08-29 06:58:56,176] [INFO] [timer.py:198:stop] 0/20, RunningAvgSamplesPerSec=232.7340551694273, CurrSamplesPerSec=58.48090316379353, MemAllocated=0.36GB, MaxMemAllocated=15.06GB\n",
        [("DeepSpeed", "samples/s", "job", True, 232.7340551694273, 20, None)],
    ),
    "nanogpt": (
        "iter 10: loss 4.1231, time 125.00ms, mfu 30.12%\n",
        [("nanoGPT", "steps/s", "", False, 8.0, 10, None)],
    ),
    "nanogpt with tokens": (
        "tokens per iteration will be: 491,520\niter 10: loss 4.1231, time 125.00ms, mfu 30.12%\n",
        [("nanoGPT", "tokens/s", "job", False, 3932160.0, 10, None)],
    ),
    "torchtitan": (
        "[rank0]:[titan] 2026-03-01 10:00:00,000 - root - INFO - \x1b[31mstep: 10  \x1b[32mloss:  4.0123  \x1b[38;2;180;60;0mgrad_norm:  1.2  \x1b[36mmemory: 32.10GiB(40.51%)  \x1b[34mtps: 7,123  \x1b[36mtflops: 412.51  \x1b[35mmfu: 41.71%\x1b[0m\n",
        [("torchtitan", "tokens/s", "rank", False, 7123.0, 10, None)],
    ),
    "maxtext": (
        "completed step: 5, seconds: 1.250, TFLOP/s/device: 451.236, Tokens/s/device: 8123.462, total_weights: 393216, loss: 6.765\n",
        [("MaxText", "tokens/s", "rank", False, 8123.462, 5, None)],
    ),
    "fairseq": (
        "2021-03-01 10:00:00 | INFO | train_inner | epoch 001:    100 / 487 loss=12.1, nll_loss=11.9, ppl=3901.2, wps=25000, ups=6.25, wpb=4000, bsz=128, num_updates=100, lr=1e-05, gnorm=2.1, train_wall=16, wall=20\n",
        [("fairseq", "tokens/s", "job", False, 25000.0, 100, None)],
    ),
    "opennmt": (
        "[2022-03-01 10:00:00,000 INFO] Step 50/100000; acc: 5.7; ppl: 12000.1; xent: 9.4; lr: 0.00001; sents: 3200; bsz: 1234/1100/64; 12000/11000 tok/s;     20 sec;\n",
        [("OpenNMT-py", "tokens/s", "job", False, 11000.0, 50, None)],
    ),
    "opennmt of 2019": (
        "[2019-03-01 10:00:00,000 INFO] Step 50/100000; acc:   5.67; ppl: 12000.12; xent: 9.39; lr: 0.00001; 12000/11000 tok/s;     20 sec\n",
        [("OpenNMT-py", "tokens/s", "job", False, 11000.0, 50, None)],
    ),
}


ITERATION = " [2026-03-01 10:00:03] iteration        3/     500 | consumed samples:          768 | elapsed time per iteration (ms): 480.5 | throughput per GPU (TFLOP/s/GPU): 310.5 | learning rate: 1.0E-05 | global batch size:   256 | lm loss: 1.0E+01 |\n"
"""A line of an entry that fills `training_iterations`: the fields in one order, and in the other."""
OF_ITERATIONS = {
    "megatron": ITERATION,
    "megatron of 2021": ITERATION.replace(" | throughput per GPU (TFLOP/s/GPU): 310.5", "").replace(
        "lm loss: 1.0E+01 |", "lm loss: 1.0E+01 | throughput (TFLOP/sec/GPU): 310.5 |"
    ),
}


@pytest.mark.parametrize("name", OF_ITERATIONS)
@pytest.mark.parametrize("width", [400, 120, 80])
def test_every_line_on_iterations_gives_its_row(tmp_path: Path, name: str, width: int) -> None:
    line = OF_ITERATIONS[name].rstrip("\n")
    pieces = "".join(f"{line[at : at + width]}\n" for at in range(0, len(line), width))
    path = tmp_path / "job.log"
    path.write_text(f"using world size: 8, tensor: 1\n{pieces}done\n")
    file = read_printed_file(path)
    (row,) = dict(file.tables)["training_iterations"].to_dict("records")
    assert (row["iteration"], row["step_ns"], row["np"]) == (3, 480_500_000, 8)
    # The record is read as soon as its time is there: what stands in later pieces is missing.
    if width > 80:
        assert (row["global_batch_size"], row["tflops_per_gpu"]) == (256, 310.5)
    assert file.kinds == ["Megatron log"]


def test_a_cut_line_on_iterations_states_no_other_number(tmp_path: Path) -> None:
    path = tmp_path / "job.log"
    for place in range(60, len(ITERATION)):
        path.write_text(ITERATION[:place])
        for row in (
            dict(read_printed_file(path).tables)
            .get("training_iterations", pd.DataFrame())
            .to_dict("records")
        ):
            assert row["step_ns"] == 480_500_000
            assert pd.isna(row["global_batch_size"]) or row["global_batch_size"] == 256
            assert pd.isna(row["tflops_per_gpu"]) or row["tflops_per_gpu"] == 310.5


def read(folder: Path, text: str) -> list[Row]:
    path = folder / "job.log"
    path.write_bytes(text.encode())
    rates = dict(read_printed_file(path).tables).get("printed_rates", pd.DataFrame())
    return [
        (
            row["tool"],
            row["unit"],
            row["per"],
            bool(pd.notna(row["mean_of"])),
            pytest.approx(row["rate"], rel=1e-6),
            None if pd.isna(row["iteration"]) else row["iteration"],
            None if pd.isna(row["data_ns"]) else round(row["data_ns"] / 1e3),
        )
        for row in rates.to_dict("records")
    ]


@pytest.mark.parametrize("name", SAMPLES)
def test_every_line_gives_its_rates(tmp_path: Path, name: str) -> None:
    text, rows = SAMPLES[name]
    assert read(tmp_path, text) == rows


def test_every_format_has_a_line() -> None:
    assert {kind.tool for kind in RATE_FORMATS if not kind.series} == {
        row[0] for _, rows in SAMPLES.values() for row in rows
    }
    texts = [line for text, _ in SAMPLES.values() for line in plain(text)]
    texts += OF_ITERATIONS.values()
    for kind in RATE_FORMATS:
        assert any(kind.pattern.search(line) for line in texts), kind


def plain(text: str) -> list[str]:
    return without_colours(text).replace("\r", "\n").splitlines()


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.parametrize(
    "wrap",
    [
        "[1,0]<stdout>:{}",
        "(TrainWorker pid=4711, ip=10.0.0.1) {}",
        "[pod/train-0/main] {}",
        "2026-11-20T21:56:09.123456789Z {}",
        "[rank3]:{}",
    ],
)
def test_prefixes_change_no_number(tmp_path: Path, name: str, wrap: str) -> None:
    text, rows = SAMPLES[name]
    assert read(tmp_path, "".join(wrap.format(line) + "\n" for line in plain(text))) == rows


@given(st.data())
@settings(max_examples=examples(100), deadline=None)
def test_a_prefix_or_a_cut_changes_no_number(data: st.DataObject) -> None:
    text, rows = SAMPLES[data.draw(st.sampled_from(sorted(SAMPLES)))]
    wrap = data.draw(st.sampled_from([prefix.of for prefix in PREFIXES]))
    printed = wrap("".join(f"{line}\n" for line in plain(text)))
    cut = printed[: data.draw(st.integers(0, len(printed)))]
    known = [row[4] for row in rows]
    # Where the header is cut off, a rate is in steps.
    known += [8.0] * ("nanoGPT" in {row[0] for row in rows})
    with TemporaryDirectory() as folder:
        assert all(row[4].expected in known for row in read(Path(folder), cut))


@pytest.mark.parametrize("width", [80, 100, 120])
@pytest.mark.parametrize("name", ["timm", "mmengine", "maxtext", "deepspeed", "fairseq", "opennmt"])
def test_a_wrapped_record_is_one_record(tmp_path: Path, name: str, width: int) -> None:
    text, rows = SAMPLES[name]
    line = text.rstrip("\n")
    wrapped = "".join(f"{line[at : at + width]}\n" for at in range(0, len(line), width))
    found = read(tmp_path, wrapped + "epoch done\n")
    assert [row[:6] for row in found] == [row[:6] for row in rows]


def test_numbers_that_contradict_each_other_are_left_out(tmp_path: Path) -> None:
    line = SAMPLES["fairseq"][0].replace("wps=25000", "wps=99000")
    path = tmp_path / "job.log"
    path.write_text(line + SAMPLES["fairseq"][0])
    file = read_printed_file(path)
    assert len(dict(file.tables)["printed_rates"]) == 1
    assert [note.text for note in file.notes] == [
        "1 line omitted: its numbers contradict each other"
    ]


def test_a_setting_without_digits_is_none(tmp_path: Path) -> None:
    text, rows = SAMPLES["nanogpt"]
    found = read(tmp_path, f"tokens per iteration will be: ,\n{text}")
    assert [row[:6] for row in found] == [row[:6] for row in rows]
