"""Measures this machine: training steps, exchanges, and both over slow links that it simulates."""
