"""Traffic: which requests reach the new version, and how routes and Services are changed and restored."""
