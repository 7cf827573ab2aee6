"""What the machine does to a rank: samples of its process, its host and its GPU, once a second."""
