"""Requests to servers outside of this process: aggregated API servers."""
