"""What runs containers: `process` as processes of this machine, `memory` not at all, for tests of everything above."""
