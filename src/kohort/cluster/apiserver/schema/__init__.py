"""The schema engine: one tree of nodes for built-in kinds and custom resources, and everything that walks it.

Trees (`node`) come from the type data of Kubernetes (`builtin`) or from a definition (`structural`). Walks over them:
reading (`decode`, `conforming`, `pruning`, `protobuf`), filling in (`defaults`, `completion`), judging (`validate`,
`uniqueness`) and publishing (`openapi`, `published`).
"""
