"""Admission: built-in plugins, webhooks and policies, in the order of the real API server."""
