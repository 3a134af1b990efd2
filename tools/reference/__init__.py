"""Generates the reference pages from the code, so that they agree with it."""
