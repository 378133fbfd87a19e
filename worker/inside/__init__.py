"""What runs inside a sandbox on the system's own Python: the standard library is all that it has."""
