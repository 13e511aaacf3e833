"""Measures exchanges and step times, also over slow links that one machine simulates."""
