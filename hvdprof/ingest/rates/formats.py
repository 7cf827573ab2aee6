"""Every kind of line with a rate: a new one is a new entry, with its line in the tests.

What a rate is of is taken from the source of each tool, not guessed from the line.

Tested in ``tests/ingest/rates/test_rate_formats.py``.
"""

import re
from collections.abc import Sequence

from hvdprof.ingest.rates.rate_format import (  # fmt: skip
    ITERATIONS,
    JOB,
    MEAN,
    RANK,
    SAMPLES,
    STEPS,
    TOKENS,
    TOTAL,
    RateFormat,
)
from hvdprof.ingest.text.line_filter import literal_of
from hvdprof.model.tables.printed_tables import MEGATRON_SERIES

_NUMBER = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?"
_NAMED = re.compile(r"(?<!\?P)<([a-z_]+)>")


def _line(pattern: str) -> re.Pattern[str]:
    """A pattern in which ``<name>`` is a number, and ``<n>`` that of the iteration."""
    pattern = pattern.replace("<n>", r"(?P<n>\d+)").replace("<np>", r"(?P<np>\d+)")
    return re.compile(_NAMED.sub(lambda name: f"(?P<{name[1]}>{_NUMBER})", pattern))


_BAR = r"\|[^|]*\| *<n>/\d+ \[[\d:]+<[\d:?]+, *"
TF_CNN, SYNTHETIC, OTHER, TQDM = "tf_cnn_benchmarks", "synthetic_benchmark", "other", "tqdm"
# fmt: off
RATE_FORMATS: tuple[RateFormat, ...] = (
    # A running mean on each rank; its own estimate of the total in the end.
    RateFormat(
        TF_CNN, "images/sec: ", _line(r"^<n>\s+images/sec: <mean_rate> \+/- <spread> "), per=RANK),
    RateFormat(
        TF_CNN, "images/sec: ", _line(r"^total images/sec: <rate>\s*$"), per=JOB, scope=TOTAL),
    RateFormat(SYNTHETIC, "img/sec per", _line(r"Iter #<n>: <rate> img/sec per"), per=RANK),
    RateFormat(SYNTHETIC, "mg/sec per", _line(r"Img/sec per \w+: <rate> \+-<spread>(?:\s|$)"),
        per=RANK, scope=MEAN),
    RateFormat(SYNTHETIC, "Total img/sec",
        _line(r"Total img/sec on <np> \w+\(s\): <rate> \+-<spread>(?:\s|$)"), per=JOB, scope=TOTAL),
    RateFormat(OTHER, "Throughput: ",
        _line(r"Throughput: <rate> (?:images|samples|examples)/s\b.*?Num of (?:GPU|CPU)s: <np>"),
        per=JOB, scope=TOTAL),
    # As people report runs: the total behind its command, or behind its number of GPUs.
    RateFormat(TF_CNN, "images/sec: ",
        _line(r"-np <np> .*\btotal images/sec: <rate>(?:[^\d.]|$)"), per=JOB, scope=TOTAL),
    RateFormat(OTHER, r"[0-9] ?GPUs?(?: ?\([^)]*\))?: *[0-9.]+ ?(?:image|img|sample)", _line(
        r"^\W{0,3}<np> ?GPUs?(?: ?\([^)]*\))?: *<rate> ?(?:images?|imgs?|samples)/s(?:ec)?\b"),
        per=JOB, scope=TOTAL),
    # The batch is multiplied by the number of ranks.
    RateFormat("timm", r"Train: \d+ \[",
        _line(r"Train: \d+ \[ *<n>/\d+ .*?Time: <step>s, +<rate>/s +"
        r"\(<mean_step>s, +<mean_rate>/s\)(?:.*?Data: <data> \(<mean_data>\))?"),
        per=JOB, from_zero=True),
    RateFormat("PyTorch ImageNet example", r"Epoch: \[\d+\]\[",
        _line(r"Epoch: \[\d+\]\[ *<n>/\d+\]\s+Time +<step> \( *<mean_step>\)"
        r"(?:\s+Data +<data> \( *<mean_data>\))?"), from_zero=True),
    RateFormat("OpenPCDet", r"Train: +\d+/\d+ \(",
        _line(r"Train: .*\[ *<n>/\d+ .*?Data time: <data>\( *<mean_data>\) .*"
        r"Batch time: <step>\( *<mean_step>\)"), from_zero=True),
    # Since the line before; the batch is multiplied by the number of ranks.
    RateFormat("OpenCLIP", r"Data \(t\): ",
        _line(r"Train Epoch: .*Data \(t\): <data> Batch \(t\): <step>s?, <rate>/s\b"), per=JOB),
    # Means of the last 20 iterations.
    RateFormat("torchvision", r"Epoch: \[\d+\] +\[",
        _line(r"Epoch: \[\d+\] +\[ *<n>/\d+\] .*? time: <step>  ?data: <data>\s")),
    # Means of the last 10 iterations, or since the line before.
    RateFormat("OpenMMLab", r"(?:Epoch|Iter)(?:\(train\) )? *\[ *\d+[\]/]",
        _line(r"(?:Epoch|Iter)(?:\(train\) )? *\[(?:\d+\]\[)? *<n>/\d+\].*?\btime: <step>,? +"
        r"data_time: <data>[, ]")),
    # Medians of 20 iterations, and means of the whole job.
    RateFormat("maskrcnn-benchmark", r"\biter: \d+ ",
        _line(r"\biter: <n> .* time: <step> \(<mean_step>\)  ?data: <data> \(<mean_data>\)")),
    # `time` is the mean of the whole job, `data_time` that of 20 iterations.
    RateFormat("Detectron2", r"\biter: \d+ ",
        _line(r"\biter: <n> .*? time: <mean_step>  ?(?:last_time: <step>  ?)?data_time: "
        r"(?:[\d.]+  ?last_data_time: <data> )?"), from_zero=True),
    RateFormat("Keras", "s/step", _line(r"(?:^|[^\d.])<n>/\d+ (?:\[=*>?\.*\] -|\u2501+) .*?"
        r"\b(?:<mean_step_ms>ms|<mean_step>s)/step")),
    # Lightning's bar shows the mean of the epoch, others a smoothed rate. NeMo has its own reader.
    *(
        RateFormat(tool, mark, _line(rf"^(?!.*reduced_train_loss=){bar}{speed}{end}"), STEPS)
        for tool, bar, mean, end in (
            ("Lightning", rf"Epoch \d+: .*?{_BAR}", "mean_", ", .*v_num="),
            (TQDM, rf"(?:(?i:epoch|train)[^|%]{{0,40}}: *)? *\d+%{_BAR}", "", "[],]"),
        )
        for mark, speed in (("it/s", f"<{mean}rate>it/s"), ("s/it", f"<{mean}step>s/it"))
    ),
    RateFormat("Hugging Face Trainer", "'train_runtime'",
        _line(r"'train_runtime'.*'train_samples_per_second': '?<rate>'?, "
        r"'train_steps_per_second': '?<steps>'?[,}]"), per=JOB, scope=TOTAL),
    *(
        RateFormat("Composer", "Train throughput/",
            _line(rf"Train throughput/{device}{name}_per_sec: <rate>\s*$"), unit, per)
        for name, unit in (("samples", SAMPLES), ("tokens", TOKENS))
        for device, per in (("", JOB), ("device/", RANK))
    ),
    RateFormat("TensorFlow CIFAR-10 tutorial", r"examples/sec; ",
        _line(r"\bstep <n>, loss = \S+ \(<rate> examples/sec; "), per=JOB),
    RateFormat("OpenSeq2Seq", "time per step = ",
        _line(r"Global step \d+: .*time per step = 0:00:0?<step>\s*$")),
    RateFormat("tf.estimator", "global_step/sec: ", _line(r"global_step/sec: <rate>\s*$"), STEPS),
    RateFormat("DeepSpeed", r"timer\.py:\d+:stop\]",
        _line(r"global_step=<n>, RunningAvgSamplesPerSec=<mean_rate>, CurrSamplesPerSec=<rate>,"),
        per=JOB),
    # Until 0.7: only the mean is multiplied by the number of ranks.
    RateFormat("DeepSpeed", r"timer\.py:\d+:stop\]",
        _line(r"\b\d+/<n>, RunningAvgSamplesPerSec=<mean_rate>,"), per=JOB),
    # The last two fields stand on either side of others, or not at all.
    RateFormat("Megatron", r"\biteration +\d+/ *\d+ \|",
        _line(r"\biteration +<n>/ *\d+ \|(?=.*elapsed time per iteration \(ms\): <step_ms> \|)"
        r"(?=(?:.*global batch size: +<batch> \|)?)"
        r"(?=(?:.*throughput (?:per GPU )?\(TFLOP/s(?:ec)?/GPU\): <tflops> \|)?)"),
        per=JOB, scope=ITERATIONS, series=MEGATRON_SERIES),
    RateFormat("nanoGPT", r"\biter \d+: loss ", _line(r"\biter <n>: loss \S+, time <step_ms>ms")),
    RateFormat("torchtitan", r"\bstep: *\d+ +(?:loss|grad_norm)",
        _line(r"\bstep: *<n> .*?\b(?:tps|wps): (?P<rate>\d[\d,]*)\s.*?mfu: "), TOKENS, RANK),
    RateFormat("MaxText", "completed step: ",
        _line(r"completed step: <n>, seconds: <step>, TFLOP/s/device: [\d.]+, "
        r"Tokens/s/device: <rate>,"), TOKENS, RANK),
    RateFormat("fairseq", r"train_inner \|",
        _line(r"train_inner \|.*\bwps=<rate>, ups=<steps>, wpb=<per_step>,.*? num_updates=<n>,"),
        TOKENS, JOB),
    # Its JSON lines, and the running mean of an epoch that it printed up to 0.8.
    RateFormat("fairseq", r'"wps": "', _line(
        r'"wps": "<rate>", "ups": "<steps>", "wpb": "<per_step>",.*"num_updates": "<n>"'),
        TOKENS, JOB),
    *(
        RateFormat("fairseq", r"\| epoch \d+:? ",
            _line(rf"\| epoch \d+{place}[^|]*?wps=<mean_rate>,"), TOKENS, JOB)
        for place in (r": +\d+%\|[^|]*\| *<n>/\d+ \[", r" +<n> / \d+ ")
    ),
    RateFormat("OpenNMT-py", r"\bStep +\d+/ *\d+; ",
        _line(r"\bStep +<n>/ *\d+; .*?[ /]<rate> tok/s;"), TOKENS, JOB),
)
# fmt: on
"""The first entry whose line it is counts."""

BARS = tuple(kind for kind in RATE_FORMATS if kind.tool == TQDM)
_KINDS: dict[str, list[RateFormat]] = {}
for _kind in RATE_FORMATS:
    _KINDS.setdefault(_kind.mark, []).append(_kind)
_NEEDLES = tuple((literal_of(mark), re.compile(mark), kinds) for mark, kinds in _KINDS.items())


def kinds_of(text: str) -> Sequence[RateFormat]:
    """The formats of the first mark in a line."""
    first, kinds_of_first = len(text) + 1, list[RateFormat]()
    for needle, mark, kinds in _NEEDLES:
        # One alternation of all marks would be tried at each letter, thirty times as slowly.
        found = mark.search(text) if needle in text else None
        if found is not None and found.start() < first:
            first, kinds_of_first = found.start(), kinds
    return kinds_of_first
