"""What hvdprof has to say of public files, and what it must not, written down from reading them.

Names are ``OWNER.REPOSITORY.THREAD``; docs/reading_truth.md says what each file holds. A phrase is
part of the text of ``hvdprof analyze`` with blanks and line breaks as one blank. Tables are
compared with ``own_parse``, not here.
"""

from dataclasses import dataclass

NOTHING_KNOWN = "is text that holds nothing known"
NO_ROW = "holds no row of nccl-tests"
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
    # The third set: 90 files of 53 repositories.
    "NVIDIA.nccl.1538": Expected(("NCCL lines 9",), SILENT.never),
    "NVIDIA.nccl.1584": SILENT,
    "NVIDIA.nccl.1911": Expected(
        ("Ranks 0-11 and 14-31 of communicator", "1 communicator of 32 ranks: MISMATCH"),
        ("1 of 32 ranks", "All "),
    ),
    "NVIDIA.nccl.1762": Expected(
        (
            "Rank 1 of communicator b3398875b8b2a063",
            "4 communicators of 2 ranks",
            "255 of communicator 93d7000200000001",
        ),
        ("1 of 2 ranks",),
    ),
    "NVIDIA.nccl.969": Expected(
        ("collective mismatch, says NCCL", "local size 496640 remote size 65536")
    ),
    "NVIDIA.nccl.563": Expected(("no memory for the network adapter", "ulimit -l")),
    "NVIDIA.nccl.525": Expected(("df -h /dev/shm",), (CONTINUED,)),
    "NVIDIA.nccl.1518": Expected(("/dev/shm/nccl-NzwJ7O", "If it is full or small"), (CONTINUED,)),
    "NVIDIA.nccl.290": Expected(("SHM 5", "df -h /dev/shm"), (CONTINUED,)),
    "pytorch.ci-infra.490": Expected(("df -h /dev/shm",), (CONTINUED,)),
    "deepseek-ai.DeepEP.53": Expected(("df -h /dev/shm",)),
    "deepseek-ai.DeepEP.143": Expected(("no memory for the network adapter",)),
    "NVIDIA.nccl.398": Expected(("P2P 10, NET 2 (Socket)",), SILENT.never),
    "NVIDIA.nccl.527": Expected(("largest, ranks 32", "inits completed 2"), SILENT.never),
    "ray-project.ray.40850": Expected(("NCCL lines 10",), SILENT.never),
    "ray-project.ray.59778": Expected(("largest, ranks 32", "P2P 1"), SILENT.never),
    "foundation-model-stack.fastsafetensors.36": Expected(("largest, ranks 2",), SILENT.never),
    "awslabs.awsome-distributed-ai.386": Expected(("NET 3 (Socket)",), SILENT.never),
    "Lightning-AI.pytorch-lightning.19487": Expected(("Using network Socket",), SILENT.never),
    "coreweave.nccl-tests.43": Expected(("on 72 ranks: 847 GB/s at 8.59 GB",)),
    "nebius.soperator.428": Expected((NO_ROW, "list of ranks is cut"), ("ranks 12", "ranks 13")),
    "NVIDIA.nccl-tests.294": Expected((NO_ROW, "list of ranks is cut"), ("ranks 13",)),
    "ROCm.container-toolkit.77": Expected(
        (NO_ROW, "list of ranks is cut", "all_reduce"), ("ranks 7", "ranks 8")
    ),
    "aws.aws-k8s-tester.503": Expected(
        ("below 0.01 GB/s", "1 row of nccl-tests omitted: cut"), ("Peak bus bandwidth: 0",)
    ),
    "NVIDIA.nccl-tests.249": Expected(
        ("ranks 1", "1 row of nccl-tests omitted: cut"), ("printed no row",)
    ),
    "NVIDIA.nccl-tests.119": Expected(("96.7 GB/s at 132 MB", "without column names")),
    "ROCm.rccl.2075": Expected(("of broadcast: 7.18 GB/s at 67.1 MB",)),
    "Vision-CAIR.MiniGPT-4.237": Expected(
        ("rank 0 ended with exit code 1, first", "rank 1 with exit code 1")
    ),
    "CVMI-Lab.PLA.18": Expected(
        ("ranks 1-3 failed; which rank failed first is not in this file",),
        ("which rank is not", "ended after it"),
    ),
    "OEvortex.unsloth.4": Expected(("rank 0 ended with exit code 1, first",)),
    "hpcaitech.ColossalAI.3571": Expected(("local rank 0 (pid 130182) ended with exit code 1",)),
    "xiuqhou.Salience-DETR.4": Expected(("local rank 2 (pid 5939) ended with exit code 1",)),
    "yangjianxin1.Firefly.32": Expected(("Exception: expected value at line 1 column 1",)),
    "huggingface.accelerate.1519": Expected(
        ("rank 4 ended with exit code 1, first of all ranks",), ("rank 0 ended",)
    ),
    "huggingface.nanotron.265": Expected(("rank 3: torch.distributed.DistBackendError",)),
    "vllm-project.vllm-omni.2928": Expected(("Rank 1 timed out in a collective",)),
    "snowflakedb.ArcticTraining.219": Expected(
        ("Ranks 1, 3, 5 and 7 timed out", "120049"), ("ranks 0-4",)
    ),
    "OpenRLHF.OpenRLHF.1126": Expected(("Rank 34 timed out in a collective, says rank 5",)),
    "PrimeIntellect-ai.prime-rl.3186": Expected(
        ("Rank 13 timed out in a collective, says rank 0",)
    ),
    "mila-iqia.milabench.269": Expected(("Rank 3 timed out in a collective (SeqNum 2070)",)),
    "huggingface.open-r1.620": Expected(
        ("Ranks 1-6 timed out in BROADCAST (SeqNum 4)",), ("different collectives",)
    ),
    "vllm-project.vllm.41160": SILENT,
    "hiyouga.LlamaFactory.8261": Expected(("Ranks 1 and 6 timed out",), ("collective timeouts 0",)),
    "pytorch.pytorch.123023": Expected(("Rank 0 timed out in ALLREDUCE (SeqNum 2)",)),
    "pytorch.pytorch.140969": Expected(never=("Error:",)),
    "horovod.horovod.364": Expected(("ranks 1 and 5 did not submit 12 tensors",)),
    "horovod.horovod.2285": Expected(
        ("ranks lack different tensors", "rank 8 not"), ("ranks 0-7 did not submit",)
    ),
    "horovod.horovod.457-second": Expected(
        ("ranks 0, 1, 3 and 4 did not submit 1 tensor; in the last warning ranks 0, 1 and 4",)
    ),
    "horovod.horovod.476": Expected(("75.5 % scaling efficiency on 16 ranks",)),
    "horovod.horovod.416": SILENT,
    "horovod.horovod.1194": Expected(("50.0 % scaling efficiency on 32 ranks",)),
    "horovod.horovod.114": SILENT,
    "kubeflow.mpi-operator.46": Expected(
        ("per rank (tf_cnn_benchmarks", "the total of a run is not in the file"), ("ended before",)
    ),
    "pytorch.pytorch.17159": SILENT,
    "huggingface.transformers.9371": SILENT,
    "mila-iqia.milabench.60": SILENT,
    "tensorflow.lingvo.59": Expected(("81.8 % scaling efficiency on 8 ranks",)),
    "nanoporetech.dorado.208": SILENT,
    "zihangdai.xlnet.269": Expected(("1.21 steps/s as printed", "which says 1.09 steps/s")),
    "tensorflow.models.1171": Expected(("1,756 samples/s of all ranks together",)),
    "tensorpack.tensorpack.858": SILENT,
    "NVIDIA.OpenSeq2Seq.191": Expected(("1.27 steps/s", "which says 0.719 steps/s")),
    "ildoonet.tf-pose-estimation.86": SILENT,
    "facebookresearch.fairseq.1955": SILENT,
    "facebookresearch.fairseq.301": Expected(("962 tokens/s of all ranks together",)),
    "facebookresearch.fairseq.430": Expected(
        ("tokens/s of all ranks together (fairseq, between 4 lines",)
    ),
    "facebookresearch.fairseq.2201": Expected(("1,195 tokens/s of all ranks together",)),
    "open-mmlab.OpenPCDet.1229": Expected(("5.00 steps/s", "data wait")),
    "open-mmlab.mmdetection.64": Expected(("0.966 steps/s", "0.6 % of the step time is data wait")),
    "open-mmlab.mmdetection.2672": Expected(("1.68 steps/s", "5.2 %")),
    "open-mmlab.mmdetection.4090": Expected(("2.55 steps/s", "2.3 %")),
    "facebookresearch.detectron2.195": Expected(("3.02 steps/s",)),
    "facebookresearch.maskrcnn-benchmark.976": Expected(
        ("2.10 steps/s", "3.6 % of the step time is data wait")
    ),
    "karpathy.nanoGPT.110": Expected(("1.78 steps/s",)),
    "karpathy.nanoGPT.178": Expected(("1.12 steps/s",)),
    "karpathy.nanoGPT.673": Expected(
        ("1.08 steps/s", "3 of 7 of these lines took over twice as long")
    ),
    "karpathy.nanoGPT.215": Expected(
        ("1 of 6 of these lines took over twice as long as the median, up to 33 times",)
    ),
    "karpathy.nanoGPT.167": Expected(("5.85 steps/s",)),
    "epfLLM.Megatron-LLM.11": Expected(("6.18 samples/s", "global batch size 1,024")),
    "NVIDIA.Megatron-LM.756": Expected(("22.7 samples/s", "231.3 TFLOP/s per GPU")),
    "AI-Hypercomputer.maxtext.4847": Expected(
        ("19,114 tokens/s per rank", "196,604 tokens per rank and step")
    ),
    "AI-Hypercomputer.maxtext.761": Expected(("49,152 tokens per rank and step",)),
    "pytorch.torchtitan.2389": Expected(("10,050 tokens/s per rank",)),
    "pytorch.torchtitan.1287": Expected(("5,868 tokens/s per rank",)),
    "pytorch.torchtitan.3393": Expected(("7,324 tokens/s per rank",)),
    "pytorch.torchtitan.950": Expected(("209,645 tokens/s per rank",)),
    "deepspeedai.DeepSpeed.1825": SILENT,
    "deepspeedai.DeepSpeed.2629": Expected(("151 samples/s of all ranks together",)),
    "mlfoundations.open_clip.129": Expected(
        ("37,194 samples/s of all ranks together", "65,536 samples per step")
    ),
    "MouseLand.cellpose.450": SILENT,
}
