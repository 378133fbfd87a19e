"""The worker: performs debates."""
