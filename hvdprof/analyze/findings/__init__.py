"""What is wrong and what to change: evidence, rules, and the list of findings."""
