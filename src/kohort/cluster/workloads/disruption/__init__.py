"""Pod disruption budgets: how many pods may be evicted now."""
