"""Everything that is installed, as one list of objects: the only source of plain manifests and Helm chart."""

from kohort.install import dashboard_deployment, operator_deployment, roles
from kohort.install.options import InstallOptions
from kohort.objects.json_types import JsonObject


def manifests(options: InstallOptions) -> list[JsonObject]:
    """In the order in which they can be created."""
    return [
        operator_deployment.place(options),
        *operator_deployment.definitions(options),
        *roles.access(options),
        *roles.gang_access(options),
        operator_deployment.configuration(options),
        *operator_deployment.certificate_store(options),
        *operator_deployment.services(options),
        operator_deployment.deployment(options),
        *operator_deployment.budget_and_network_policy(options),
        *([operator_deployment.monitor(options)] if options.service_monitor else []),
        *dashboard_deployment.dashboard(options),
        *operator_deployment.webhooks(options),
    ]
