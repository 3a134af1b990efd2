"""For all tests: how properties are tried.

Machines are shared and slow at times, so no example has a deadline. In CI the examples are the same every time: a
change is judged by what it changes, and new examples are looked for on the machines of developers.
"""

import os

from hypothesis import HealthCheck, settings

settings.register_profile("here", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", parent=settings.get_profile("here"), derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")
