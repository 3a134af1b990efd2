"""ResourceQuota: how much of everything a namespace may hold."""
