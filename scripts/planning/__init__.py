"""Which runs a published item needs, what they cost, and the cluster they go to."""
