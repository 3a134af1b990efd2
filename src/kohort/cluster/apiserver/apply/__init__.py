"""Who owns which field: managedFields on every write, and server-side apply.

`fieldset` is the algebra of sets of field paths, `typed` walks objects by their schema, `managed` keeps the entries of
`metadata.managedFields`, `serverside` merges an applied intent into the live object. All of it is pure.
"""
