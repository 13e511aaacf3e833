"""Training runs: one in this process, or many in processes of their own."""
