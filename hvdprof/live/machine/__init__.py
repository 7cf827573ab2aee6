"""What the machine does to the ranks of a running job: memory that grows, cores and clocks."""
