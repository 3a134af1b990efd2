"""Objects as clients want them: JSON, YAML, protobuf, tables, and how the format is negotiated."""
