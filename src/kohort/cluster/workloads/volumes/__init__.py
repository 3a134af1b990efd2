"""Claims and volumes: bound to each other, provisioned as directories of this machine, protected while in use."""
