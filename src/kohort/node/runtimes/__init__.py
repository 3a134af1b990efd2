"""Container runtimes: `process` runs containers as processes of this machine; `simulated` runs nothing, for tests."""
