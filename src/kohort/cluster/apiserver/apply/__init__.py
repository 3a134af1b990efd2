"""Who owns which field: managedFields on every write, and server-side apply.

`fieldset` is the algebra of sets of field paths, `ownership_schema` says how fields are owned, `field_comparison` which
fields an object has and how two versions differ, `managed` keeps the entries of `metadata.managedFields`, `serverside`
merges an applied intent into the live object (`intent_validation`, `merging`). All of it is pure.
"""
