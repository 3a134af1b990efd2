"""Garbage collection: what is owned goes when its owners are gone."""
