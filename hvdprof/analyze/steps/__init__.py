"""Steps of the job and of each launch: length, cells, baseline, own work, trace overhead."""
