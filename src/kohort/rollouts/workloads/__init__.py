"""Workloads that can be released: how each kind is held, how its new version is started, promoted and taken back."""
