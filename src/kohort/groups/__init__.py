"""LeaderWorkerSet: groups of one leader and its workers, created, rolled, resized and restarted as one.

Two controllers, `set_controller` and `pod_controller`, observe cached objects (`caches`, `observed_groups`,
`pod_observer`, `group_members`), decide with pure functions (`set_plan`, `pod_plan`) and perform the typed actions. The
pod controller performs with `group_recreation` and `group_completion`. `child_objects` builds what both write,
`messages` the texts of events and conditions. The rules behind the two plans:

| rule | module |
|---|---|
| how far a set may roll | `rolling_update`, `leader_template_revision` |
| when two templates are the same revision | `rules.group_template`, `revisions` |
| when a group is ready or updated | `rules.group_state` |
| when a group is recreated, and when its next workers may be created | `restart_decision`, `previous_workers` |
| what a set may contain | `defaulting`, `validation`, `template_dry_run`, `name_collisions` |
| what the webhook writes into pods | `pod_mutation`, `subgroups`, `placement`, `tpu_environment`, `gang` |
| what is reported | `status`, `status_reporting`, `waiting_reason`, `missing_pod_cause`, `metrics` |
"""
