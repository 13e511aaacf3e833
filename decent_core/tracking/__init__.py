"""Sends a run to a dashboard: Weights & Biases or trackio."""
