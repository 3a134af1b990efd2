"""The node as a whole: its size, what it can do, the pressure it is under. The node object and all decisions about
pods are made of it."""

from kohort.node import machine_info
from kohort.node.devices.interface import Devices, NoDevicePlugins
from kohort.node.machine_info import Machine
from kohort.node.pressure import Pressure
from kohort.objects.json_types import JsonObject
from kohort.rules.node_feature_gates import NodeGates
from kohort.rules.resize_decision import NodeFacts


class NodeState:
    def __init__(
        self, machine: Machine, runtime: str, gates: NodeGates, no_limits_reason: str, runtime_version: str
    ) -> None:
        """`runtime` is its name; `no_limits_reason` says why limits of pods are not enforced, empty if they are."""
        self.runtime_version = runtime_version
        """Empty if the runtime has none."""
        self.runtime_problem = ""
        """Why no pod can run now."""
        self.machine = machine
        self.gates = gates
        self.pressure = Pressure()
        self.hostname = machine.name
        self.port = 0
        """Of the node's API."""
        self.devices: Devices = NoDevicePlugins()
        self._runtime = runtime
        self._no_limits_reason = no_limits_reason

    @property
    def enforces_limits(self) -> bool:
        return not self._no_limits_reason

    @property
    def container_id_scheme(self) -> str:
        """What `containerID` in a pod's status begins with."""
        return f"{self._runtime}://"

    def facts(self) -> NodeFacts:
        """What decisions about pods depend on."""
        return NodeFacts(
            self.machine.allocatable, self.gates, cgroup_v2=self.enforces_limits, pressure=self.pressure.message
        )

    def status(self) -> JsonObject:
        """The status of the node object, except its conditions."""
        features = self.gates.declared(limits=self.enforces_limits)
        runtime = f"{self._runtime}://{self.runtime_version or 1}"
        status = machine_info.node_status(
            self.hostname, self.machine.capacity, self.machine.address, self.port, runtime, features
        )
        status["capacity"] |= self.devices.capacity()
        status["allocatable"] |= self.devices.allocatable()
        return status

    def conditions(self, now: str) -> list[JsonObject]:
        return machine_info.node_conditions(
            now, pressure=self.pressure, unlimited=self._no_limits_reason, problem=self.runtime_problem
        )
