"""A released Kruise Rollouts manager for takeover tests.

python3 -m tools.rollouts.build            prints the path of the program
"""

from pathlib import Path

from tools.released_operator import Released, main

VERSION = "0.6.0"
ROLLOUTS = Released(
    name="rollouts",
    version=VERSION,
    module="github.com/openkruise/rollouts",
    package="github.com/openkruise/rollouts",
    # It reads its scripts from the folder that it is started in.
    folders=("config", "lua_configuration"),
    source=Path(__file__).resolve().parent,
)

if __name__ == "__main__":
    main(ROLLOUTS)
