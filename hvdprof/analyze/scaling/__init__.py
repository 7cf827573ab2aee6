"""How well the job scales: efficiency, throughput, lost time by part, toggles."""
