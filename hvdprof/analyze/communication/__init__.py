"""What collectives cost, how far they overlap with computation, and what the network gives."""
