"""Probes of the network between the hosts of a job."""
