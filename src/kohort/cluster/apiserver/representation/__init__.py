"""Objects as clients want them: JSON, YAML and tables, and how the format is negotiated."""
