"""Progressive delivery of groups: canary, blue-green, traffic, rollback.

A Rollout (`rolloutcontroller`) writes a BatchRelease (`releasecontroller`). What each does next is decided by pure
machines: `phases` for a Rollout as a whole, `progressing`, `steps` and `finalising` for a release, `batches` for a
BatchRelease; `state` is the vocabulary they share. What they decide is done by `workloads` (sets and Deployments) and
`traffic` (Services and routes). Everything that must survive a restart is in the status.
"""
