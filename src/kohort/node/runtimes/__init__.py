"""What runs containers: `process` as processes of this machine, `simulated` not at all, for tests."""
