"""What connects hosts and GPUs: links, NCCL's graph and transports."""
