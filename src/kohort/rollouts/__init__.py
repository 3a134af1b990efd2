"""Progressive delivery of groups: canary, blue-green, traffic, rollback.

The controller of Rollouts (`rollout_controller`) writes BatchReleases; the controller of BatchReleases
(`batchrelease_controller`) changes workloads. Both observe the cluster, decide, and perform what was decided.

| decision | module |
|---|---|
| the phase of a Rollout | `rollout_phases` |
| the state of a release, from its start to its end | `release_state_machine` |
| the state of a step | `step_state_machine` |
| the order in which a release ends | `finalizing` |
| the phase and the batch of a BatchRelease | `batch_state_machine` |

Decisions are pure functions. `release_state` says what they see and return, `release_actions` and `traffic.actions`
what they can want done, `action_result` what comes of it, `messages` how it is worded. `workloads` acts on sets and
Deployments, `traffic` on Services and routes. Everything that must survive a restart is in the status.
"""
