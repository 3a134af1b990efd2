"""Jobs: pods that run to an end. Failure and success policies and per-index back-off are not evaluated."""
