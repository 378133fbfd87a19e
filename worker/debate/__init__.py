"""The debates, pure: generators of steps, and what they share."""
