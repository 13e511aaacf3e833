"""Carries the methods out: N workers in one process, or one process a worker over torch.distributed."""
