"""Dashboards that a run is sent to, and what they show."""
