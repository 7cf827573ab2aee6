"""What hvdprof has to say of public files, and what it must not, written down from reading them.

Names are ``OWNER.REPOSITORY.THREAD``; docs/reading_truth.md says what each file holds. A phrase is
part of the text of ``hvdprof analyze`` with blanks and line breaks as one blank. Tables are
compared with ``own_parse``, not here.
"""

from dataclasses import dataclass

NOTHING_KNOWN = "is text that holds nothing known"
NO_ROW = "nccl-tests printed no row"
CONTINUED = "and continued"


@dataclass(frozen=True)
class Expected:
    """Phrases that a text holds, and phrases that would be wrong or misleading there."""

    says: tuple[str, ...] = ()
    never: tuple[str, ...] = ()


SILENT = Expected(never=("Error:", "Failure in", "Stall", "Warning:"))
"""A file in which nothing went wrong, or that is none of hvdprof's."""

EXPECTED: dict[str, Expected] = {
    # Time-outs of PyTorch's watchdog.
    "hiyouga.LlamaFactory.7396": Expected(("0, 2, 3 and 4 timed out in ALLREDUCE (SeqNum 1580)",)),
    "hiyouga.LlamaFactory.6269": Expected(
        ("Ranks 0, 3 and 4 of a process group of 8", "(SeqNum 7753)"), ("network between",)
    ),
    "XPixelGroup.BasicSR.737": Expected(("Ranks 0, 1 and 2 timed out in ALLREDUCE (SeqNum 808)",)),
    "OFA-Sys.OFA.271": Expected(("Ranks 1, 2, 3, 5, 6 and 7", "SeqNum 469508", "30 min 02 s")),
    "pytorch.pytorch.118369": Expected(
        ("Rank 7 timed out", "64088", "rank 0", "different SeqNums")
    ),
    "NVIDIA.nccl.1409": Expected(("ranks called different collectives", "rank 7", "BROADCAST")),
    "sgl-project.sglang.1693": Expected(("Ranks 1 and 4 of a process group of 8", "SeqNum 9141")),
    # NCCL logs that are whole lines of a healthy job, cut out of it.
    "NVIDIA.nccl.1609": SILENT,
    "NVIDIA.nccl.226": Expected(("largest, ranks 64",), SILENT.never),
    "NVIDIA.nccl.952": Expected(("P2P 7", "NET 2"), SILENT.never),
    "NVIDIA.nccl.514": SILENT,
    "NVIDIA.nccl.385": Expected(("P2P 9", "NET 2"), SILENT.never),
    "NVIDIA.nccl.1027": Expected(("P2P 6", "SHM 1"), ("No variable in the log forbids",)),
    "NVIDIA.nccl.1412": Expected(("P2P 4", "NET 4"), SILENT.never),
    "NVIDIA.nccl.1814": SILENT,
    "NVIDIA.nccl.246": Expected(("P2P 11", "NET 3"), SILENT.never),
    "NVIDIA.nccl.392": Expected(("2.5.7",), SILENT.never),
    "NVIDIA.nccl-tests.29": Expected(("largest, ranks 32", "inits completed 9"), SILENT.never),
    "ROCm.rccl.1026": Expected(("P2P 4", "NET 4"), SILENT.never),
    "tinygrad.open-gpu-kernel-modules.22": Expected(("P2P 6",), SILENT.never),
    "mindsdb.lightwood.332": Expected(("2.7.8",), SILENT.never),
    "pytorch.pytorch.68893": Expected(("2.7.8", "libibverbs"), SILENT.never),
    # NCCL logs with a problem.
    "Mellanox.nv_peer_memory.56": Expected(("distance 3",), ("does not give the reason",)),
    "NVIDIA.nccl.529": Expected(("2.5.6",), ("Harmful setting",)),
    "Oneflow-Inc.oneflow.3586": Expected(("NCCL WARN Connect to",), (CONTINUED,)),
    "NVIDIA.nccl-tests.15": Expected(("Connection timed out",), (CONTINUED,)),
    "NVIDIA.nccl-tests.166": Expected(
        ("Connect to 10.0.0.2",), (CONTINUED, "No variable in the log forbids")
    ),
    "horovod.horovod.666": Expected(("Connection closed by remote peer",), (CONTINUED,)),
    "horovod.horovod.789": Expected(("largest, ranks 4",), ("Error:",)),
    # nccl-tests and other tables.
    "NVIDIA.nccl.1189": Expected((NO_ROW, "ranks 4"), ("failed no",)),
    "NVIDIA.nccl-tests.107": Expected((NO_ROW,), ("failed no",)),
    "NVIDIA.nccl.1530": Expected(("ranks 8", "1 row of nccl-tests omitted: cut")),
    "NVIDIA.nccl.583": Expected((NO_ROW, "ranks 8"), ("failed no",)),
    "NVIDIA.nccl.340": Expected((NO_ROW, "broadcast"), ("failed no",)),
    "microsoft.mscclpp.507": Expected(("7.76 GB/s at 32.8 kB",)),
    "microsoft.mscclpp.117": Expected(never=("omitted: cut",)),
    "ROCm.rccl.1352": Expected(("123 GB/s at 3.15 MB", "beside")),
    "kvcache-ai.Mooncake.3484": SILENT,
    "openucx.ucc.223": Expected((NOTHING_KNOWN,)),
    "LuckyLittleMonster.benchmark.nccl": SILENT,
    # Benchmarks.
    "horovod.horovod.712": Expected(("resnet50", "433 samples/s")),
    "horovod.horovod.288": Expected(("2,048 samples/s", "without a number of ranks")),
    "bytedance.byteps.29": SILENT,
    "horovod.horovod.44": SILENT,
    "horovod.horovod.71": SILENT,
    "horovod.horovod.609": SILENT,
    # Ends of jobs.
    "horovod.horovod.410": Expected(("non-zero exit",)),
    "horovod.horovod.1421": Expected(("rank 0 ended with exit code 1",)),
    "horovod.horovod.469": Expected(("rank 7 was ended by SIGKILL",)),
    "Kay1794.Aware-of-the-history.2": Expected(("rank 1 was ended by SIGKILL",)),
    "horovod.horovod.642": Expected(("non-zero exit",)),
    "NVIDIA.nccl.1016": Expected(("exit code 1",)),
    "pytorch.pytorch.121209": Expected(("rank 0 ended with exit code 1",)),
    "Z-Zheng.ChangeStar.5": Expected(("unhandled system error",)),
    "Tencent-Hunyuan.HunyuanVideo.114": Expected(("rank 0: RuntimeError: NCCL Error 2",)),
    # Stalls.
    "horovod.horovod.334": Expected(("ranks 0 and 6 did not submit",)),
    "horovod.horovod.534": Expected(("rank 0 did not submit 6 tensors",)),
    "horovod.horovod.336": Expected(("submitted different tensors",)),
    "horovod.horovod.2662": Expected(
        ("submitted different tensors",), ("ranks 0-3 did not submit 2 tensors",)
    ),
    # Collected after the readers were fixed, first time.
    "ai2cm.ace.348": Expected(("Ranks 1, 2 and 3 timed out in ALLREDUCE (SeqNum 1132079)",)),
    "ShinoharaHare.LLM-Training.7": Expected(("Rank 2 timed out in ALLREDUCE (SeqNum 7487)",)),
    "Lightning-AI.pytorch-lightning.20434": Expected(("Rank 3 of 4", "(SeqNum 1)", "BROADCAST")),
    "facebookresearch.ParlAI.3084": Expected(("invalid argument", "NCCL version 2.4.8")),
    "Azure.aks-rdma-infiniband.30": Expected(("without column names",)),
    "aws.aws-k8s-tester.464": Expected(("it was cut, or the ranks hang",), ("Error:",)),
    "horovod.horovod.2097": Expected(("rank 3 ended with exit code 250",)),
    "horovod.horovod.3060": Expected(("rank 2: RuntimeError: worker absolutely refuses",)),
    "horovod.horovod.693": Expected(("608 samples/s", "without a number of ranks")),
    "polyaxon.polyaxon.657": Expected(("rank 0 did not submit 1 tensor",)),
    "horovod.horovod.457": Expected(("rank 815 did not submit 2 tensors",)),
    "horovod.horovod.1012": Expected(
        ("rank 1 did not submit 6 tensors",), ("name no rank", "for at least -")
    ),
    "horovod.horovod.1442": Expected(
        ("rank 6 did not submit at least 6 tensors for at least 60.0 s",), ("for at least -",)
    ),
    "horovod.horovod.100": Expected(("rank 0 did not submit 4 tensors",), ("for at least -",)),
    "rwth-i6.returnn.323": SILENT,
    "ROCm.rccl.929": Expected(("0.110 GB/s at 1.02 kB",)),
    "ROCm.rocm-systems.9409": SILENT,
    "crickett-hpe.hpc-ai-envs.30": Expected(("on 8 ranks: 161 GB/s at 8.39 MB", "MI300X")),
    "ray-project.ray.16979": SILENT,
    "ray-project.ray.46795": SILENT,
    "ray-project.ray.43753": Expected(("2.19.3",), SILENT.never),
    "NVIDIA.nccl.1814-description": Expected(("status 12",), (CONTINUED,)),
    "NVIDIA.nccl.1405": Expected(("status 12",), (CONTINUED,)),
    "NVIDIA.nccl.426": Expected((NO_ROW, "ranks 2"), ("failed no",)),
    "huggingface.accelerate.2246": Expected(("listen",)),
    "onpix.LCDPNet.17": Expected(("ncclUnhandledCudaError",)),
    "Blackwellboy.minefield.44": SILENT,
    "athena-team.athena.110": SILENT,
    "horovod.horovod.998": SILENT,
    "horovod.horovod.124": SILENT,
    # Collected after the readers were fixed, second time.
    "NVIDIA.nccl-tests.44": Expected(("5.66 GB/s at 131 kB", "without column names")),
    "NVIDIA.nccl.318": Expected(("ranks 8", "Tesla V100-SXM2-32GB")),
    "NVIDIA.nccl.644": Expected(("7.32 GB/s", "without column names"), ("omitted: cut",)),
    "deepspeedai.DeepSpeed.7533": Expected(("Rank 6 timed out in ALLREDUCE (SeqNum 460631)",)),
    "sgl-project.sglang.3424": Expected(("1522789", "_ALLGATHER_BASE")),
    "deepspeedai.DeepSpeed.4781": Expected(("Rank 6 of 8", "(SeqNum 4210)")),
    "bghira.SimpleTuner.759": Expected(("Rank 0 of 2", "(SeqNum 357826)")),
    "huggingface.trl.1051": Expected(("Ranks 1 and 2 of 4", "(SeqNum 31)")),
    "pytorch.pytorch.118369-description": Expected(("Ranks 2, 3, 4 and 6", "(SeqNum 880)")),
    "NVIDIA.nccl.797": Expected(("2.16.2",), SILENT.never),
    "NVIDIA.nccl.1817": Expected(("2.20.5", NO_ROW, "ranks 8"), ("failed no", "Error:")),
    "NVIDIA.nccl.367": Expected(("libibverbs",), ("Error:", CONTINUED)),
    "rwth-i6.returnn.1469": Expected(("NCCL_P2P_LEVEL=LOC", "NCCL_IB_DISABLE=1"), ("Error:",)),
    "horovod.horovod.466": Expected(("205 samples/s", "without a number of ranks")),
    "aws-samples.deep-learning-models.2": Expected(("740",), ("Error:", "Failure in")),
    "NVIDIA.nccl.1027-complete": Expected(("largest, ranks 8", "inits completed 4"), SILENT.never),
    "NVIDIA.nccl-tests.68": Expected((NO_ROW, "all_reduce"), ("failed no",)),
}
