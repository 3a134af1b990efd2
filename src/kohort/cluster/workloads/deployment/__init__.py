"""Deployments: one ReplicaSet per template, replicas moved from the old ones to the new one."""
