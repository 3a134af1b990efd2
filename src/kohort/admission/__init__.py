"""Admission webhooks: a thin server around the pure defaulting and validation of groups and rollouts."""
