"""Built-in kinds as data: names, schema, defaults, strategy hooks, printer columns; one file per API group."""
