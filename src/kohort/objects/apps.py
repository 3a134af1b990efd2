"""Deployments, ReplicaSets, and StatefulSets: those of groups, and those of users.

Pod templates stay plain documents: controllers copy and hash them whole, and a typed view would lose what it does
not know.
"""

# ruff: noqa: RUF012 (an empty dictionary as default is made anew for every instance)

from kohort.objects.json_types import JsonObject
from kohort.objects.meta import Condition, ObjectMeta, Selector
from kohort.objects.view import View


class RollingUpdateDeployment(View, frozen=True):
    max_unavailable: int | str | None = None
    max_surge: int | str | None = None


class DeploymentStrategy(View, frozen=True):
    type: str = ""
    rolling_update: RollingUpdateDeployment | None = None


class DeploymentSpec(View, frozen=True):
    replicas: int | None = None
    selector: Selector | None = None
    template: JsonObject = {}
    strategy: DeploymentStrategy = DeploymentStrategy()
    min_ready_seconds: int = 0
    paused: bool = False
    progress_deadline_seconds: int | None = None


class DeploymentStatus(View, frozen=True):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    conditions: tuple[Condition, ...] = ()


class Deployment(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class ReplicaSetSpec(View, frozen=True):
    replicas: int | None = None
    selector: Selector | None = None
    template: JsonObject = {}
    min_ready_seconds: int = 0


class ReplicaSetStatus(View, frozen=True):
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    conditions: tuple[Condition, ...] = ()


class ReplicaSet(View, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ReplicaSetSpec = ReplicaSetSpec()
    status: ReplicaSetStatus = ReplicaSetStatus()


class RollingUpdateStatefulSet(View, frozen=True):
    partition: int = 0


class StatefulSetUpdateStrategy(View, frozen=True):
    type: str = ""
    rolling_update: RollingUpdateStatefulSet = RollingUpdateStatefulSet()


class TemplateMeta(View, frozen=True):
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}


class TemplateMetadataOnly(View, frozen=True):
    metadata: TemplateMeta = TemplateMeta()


class StatefulSetSpec(View, frozen=True):
    replicas: int = 1
    template: TemplateMetadataOnly = TemplateMetadataOnly()
    update_strategy: StatefulSetUpdateStrategy = StatefulSetUpdateStrategy()
    volume_claim_templates: tuple[JsonObject, ...] = ()


class StatefulSetStatus(View, frozen=True):
    observed_generation: int = 0
    replicas: int = 0
    available_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""


class GroupStatefulSet(View, frozen=True):
    """A leader or worker StatefulSet; of its pod template only labels and annotations."""

    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpec = StatefulSetSpec()
    status: StatefulSetStatus = StatefulSetStatus()

    @property
    def on_delete(self) -> bool:
        """It replaces no pod by itself."""
        return self.spec.update_strategy.type == "OnDelete"

    @property
    def partition(self) -> int:
        """From which on it replaces pods."""
        return self.spec.replicas if self.on_delete else self.spec.update_strategy.rolling_update.partition

    @property
    def observed(self) -> bool:
        """The StatefulSet controller has acted on it as it is."""
        return self.status.observed_generation >= self.metadata.generation

    @property
    def held_for_adoption(self) -> bool:
        """Of workers: their template has new amounts, which running pods got in place; none may be replaced for it."""
        return self.partition > self.spec.replicas

    @property
    def settled(self) -> bool:
        """All its pods are available and of one revision, or about to be relabelled to one."""
        status = self.status
        of_one_revision = status.current_revision == status.update_revision or self.held_for_adoption
        return self.spec.replicas == status.available_replicas and of_one_revision


class RollingUpdateOfUser(View, frozen=True):
    partition: int | None = None
    max_unavailable: int | str | None = None


class UpdateStrategyOfUser(View, frozen=True):
    type: str = ""
    rolling_update: RollingUpdateOfUser | None = None


class Ordinals(View, frozen=True):
    start: int = 0


class StatefulSetSpecOfUser(View, frozen=True):
    replicas: int | None = None
    ordinals: Ordinals = Ordinals()
    selector: Selector | None = None
    template: JsonObject = {}
    update_strategy: UpdateStrategyOfUser = UpdateStrategyOfUser()


class StatefulSetStatusOfUser(View, frozen=True):
    observed_generation: int = 0
    replicas: int = 0
    ready_replicas: int = 0
    updated_replicas: int = 0
    current_revision: str = ""
    update_revision: str = ""


class StatefulSet(View, frozen=True):
    """A StatefulSet that users write, with its pod template as it is."""

    metadata: ObjectMeta = ObjectMeta()
    spec: StatefulSetSpecOfUser = StatefulSetSpecOfUser()
    status: StatefulSetStatusOfUser = StatefulSetStatusOfUser()

    @property
    def replicas(self) -> int:
        return 1 if self.spec.replicas is None else self.spec.replicas

    @property
    def partition(self) -> int:
        rolling = self.spec.update_strategy.rolling_update
        return (rolling.partition or 0) if rolling is not None else 0

    @property
    def observed(self) -> bool:
        """Its controller has acted on it as it is."""
        return self.status.observed_generation >= self.metadata.generation
