"""What standalone files say: facts of logs, timelines and NCCL logs without a run directory."""
