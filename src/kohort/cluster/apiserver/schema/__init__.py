"""The schema engine: one tree of nodes for built-in kinds and custom resources, and everything that walks it."""
