"""Custom resources: their definitions, and how objects of a defined kind are written."""
