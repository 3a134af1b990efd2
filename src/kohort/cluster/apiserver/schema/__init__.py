"""The schema engine: one tree of nodes for built-in kinds and custom resources, and everything that walks it.

Trees (`node`) come from the type data of Kubernetes (`builtin`) or from a definition (`structural`). Walks over them:
reading (`json_body`, `yaml_body`, `protobuf_decode`, then `decode`, `go_round_trip`, `pruning`), filling in
(`defaults`, `go_zero_values`) and judging (`validate`, `list_uniqueness`). `structure_rules` and `vocabulary_rules`
judge the schema of a definition itself. The package `openapi` publishes trees.
"""
