# ruff: noqa: E501  (lines of logs are as long as they are)
"""A text for every reader of printed output."""

from tests.builders.nccl_log import call_line, job, said
from tests.builders.rank_stacks import faulthandler, py_spy
from tests.ingest.logs.test_fr_trace_text import RECORD

TEXTS = {
    "horovod": """\
[2026-11-20 21:56:09.  3056: W /horovod/common/stall_inspector.cc:107] One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than 60 seconds. This may cause deadlock.
Missing ranks:
0: [allreduce.late.0.0, allreduce.late.0.1]
1: [allreduce.late.0.2]
Traceback (most recent call last):
  File "train.py", line 13, in <module>
RuntimeError: on purpose
[rank1]:[E ProcessGroupNCCL.cpp:563] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLGATHER, NumelIn=1, NumelOut=8, Timeout(ms)=120000) ran for 120008 milliseconds before timing out.
torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB
""",
    "stacks": faulthandler("reduce") + py_spy("data", 31),
    "fr_trace": RECORD.format(seq=71, name="all_reduce", missing="{2}"),
    "autotune": """\
hierarchical_allreduce,hierarchical_allgather,torus_allreduce,cache_enabled,cycle_time_ms,tensor_fusion_threshold,score
0,0,0, 0,5,4,8.18
0,1,0, 1,1.01174,4.67869,43.3
0,1,0, 1,1.01174,4.67869,43.3
""",
    "nccl-tests": """\
# nThread 1 nGpus 1 minBytes 8 maxBytes 32 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1
# Using devices
#  Rank  0 Group  0 Pid   4711 on       oak1 device  0 [0000:07:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   4712 on       oak1 device  1 [0000:08:00] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
           8             2     float     sum      -1    35.20    0.00    0.00      0    34.86    0.00    0.00      0
          16             4     float     sum      -1    34.26    0.00    0.00      0    34.24    0.00    0.00      0
          32             8     float     sum      -1    34.26    0.00    0.00      0    34.24    0.00    0.00      0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 178.078
""",
    "all_reduce_bench": """\
The average bandwidth of all_reduce over 8 ranks (5 warmups / 20 trials):

| payload |    busbw   |    algbw   |
| ------: | ---------: | ---------: |
|    32KiB |   1.44GBps |   0.82GBps |
|    64KiB |   2.88GBps |   1.64GBps |
""",
    "tf_cnn_benchmarks": """\
TensorFlow:  1.12
Model:       resnet50
Batch size:  128 global
             64 per device
Devices:     ['horovod/gpu:0', 'horovod/gpu:1']
Done warm up
1	images/sec: 272.6 +/- 0.0 (jitter = 0.0)	8.257
10	images/sec: 270.1 +/- 0.9 (jitter = 2.1)	8.245
----------------------------------------------------------------
total images/sec: 540.66
----------------------------------------------------------------
""",
    "synthetic": """\
Model: ResNet50
Batch size: 32
Number of GPUs: 8
Running warmup...
Iter #0: 148.1 img/sec per GPU
Iter #1: 147.9 img/sec per GPU
Img/sec per GPU: 148.0 +-0.3
Total img/sec on 8 GPU(s): 1184.0 +-2.4
""",
    "table": """\
# Scaling

| GPUs | samples/s | speedup |
| ---: | --------: | ------: |
| 1 | 362.4 | 1.0 |
| 8 | 2722.0 | 7.5 |
| 16 | 5099.4 | 14.1 |
""",
    "ras": """\
#0-0 (27a079b828ff1a75) MISMATCH
  Communicator ranks have different collective operation counts
  3 ranks have launched up to operation 6650
  Rank 2 has launched up to operation 6649 -- GPU 2 managed by process 9 on node 10.0.0.1
""",
    "inspector": """\
{"header": {"id": "0xab", "rank": 1, "n_ranks": 2, "nnodes": 1}, "metadata": {"inspector_output_format_version": "v4.4", "hostname": "oak1"}}
{"coll_perf": {"coll": "AllReduce", "coll_sn": 3, "coll_msg_size_bytes": 1024, "coll_exec_time_us": 20, "coll_timing_source": "kernel_gpu", "coll_algobw_gbs": 1.0, "coll_busbw_gbs": 1.5}}
""",
    "deepspeed": """\
[2022-06-26 01:39:55,722] [INFO] [logging.py:69:log_dist] [Rank 0] rank=0 | comm op: reduce_scatter_base | time (ms): 9.46 | msg size: 678.86 MB | algbw (Gbps): 1204.52  | busbw (Gbps): 1129.23
""",
    "megatron": """\
using world size: 8, data-parallel size: 8
 [2026-03-01 10:00:01] iteration        1/     500 | elapsed time per iteration (ms): 900.0 | global batch size:   256 |
 [2026-03-01 10:00:02] iteration        2/     500 | elapsed time per iteration (ms): 500.0 | global batch size:   256 |
 [2026-03-01 10:00:03] iteration        3/     500 | elapsed time per iteration (ms): 510.0 | global batch size:   256 |
(min, max) time across ranks (ms):
    forward-backward ...............................: (26094.39, 26195.09)
""",
    "nemo": """\
All distributed processes registered. Starting with 8 processes
Training epoch 0, iteration 0/99 | lr: 0 | global_batch_size: 128 | global_step: 0 | reduced_train_loss: 11.9 | train_step_timing in s: 23.52
Training epoch 0, iteration 1/99 | lr: 2e-05 | global_batch_size: 128 | global_step: 1 | reduced_train_loss: 11.8 | train_step_timing in s: 2.262 | consumed_samples: 256
Training epoch 0, iteration 2/99 | lr: 4e-05 | global_batch_size: 128 | global_step: 2 | reduced_train_loss: 11.7 | train_step_timing in s: 2.245 | consumed_samples: 384
Epoch 1: :   3%|▎         | 3/100 [00:31<18:29, v_num=0, reduced_train_loss=6.870, global_step=102.0, consumed_samples=13184.0, train_step_timing in s=1.230]
""",
    "csv": "np,samples/s\n1,362.4\n8,2722.0\n16,5099.4\n",
}
NCCL = (
    "\n".join([*job(), call_line(0, 1000), said("NCCL_IB_HCA set by environment to mlx5")]) + "\n"
)
