"""How the clocks of the ranks relate: exchange, ping, and the groups that carry both."""
