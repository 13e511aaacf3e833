"""Slow networks on one machine, and what exchanges take."""
