"""Rules on NCCL logs; ``nccl_findings`` lists them."""
