"""JSON as Python sees it.

The API server works on whole objects whose shape is only known at run time, so they stay plain dictionaries.
These two aliases are the only door through which `Any` enters; everything that knows its shape uses a typed view.
"""

from typing import Any, TypeAlias

Json: TypeAlias = Any
JsonObject: TypeAlias = dict[str, Any]
