"""LeaderWorkerSet: groups of one leader and its workers, created, rolled, resized and restarted as one."""
