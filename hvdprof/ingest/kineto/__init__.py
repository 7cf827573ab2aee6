"""Traces of torch.profiler (Kineto) of one or several ranks to tables."""
