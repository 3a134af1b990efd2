"""Storage: one global revision, an append log in SQLite, the current state and the watch window in memory."""
