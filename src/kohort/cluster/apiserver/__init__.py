"""A Kubernetes API server: HTTP surface, storage, patch, apply, schema engine, CRDs, admission, authorization.

Built-in kinds are data run by the same engine as custom resources. A request enters through `server.ApiServer.handle`,
whether it came over a socket (`http/`) or from a client in the same process. A write then passes

    endpoints/routing → endpoints/writing → schema/decode, kinds (defaults) → apply/managed (who owns what)
                      → admission (changes) → kinds (rules) → admission (judges) → storage/committer

and is answered when it is durable. `server_setup` puts the parts together.
"""
