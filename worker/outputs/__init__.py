"""What is published about a run, rendered; pure."""
