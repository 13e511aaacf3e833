"""Records as tables, figures and one page."""
