"""Progressive delivery of groups: canary, blue-green, traffic, rollback."""
