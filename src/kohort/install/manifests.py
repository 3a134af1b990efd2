"""Everything that is installed, as one list of objects: the only source of plain manifests and Helm chart."""

from kohort.install import roles, workload
from kohort.install.options import Options
from kohort.objects.jsontypes import JsonObject


def manifests(options: Options) -> list[JsonObject]:
    """In the order in which they can be created."""
    return [
        workload.place(options),
        *workload.definitions(options),
        *roles.access(options),
        *roles.gang_access(options),
        workload.configuration(options),
        *workload.certificate_store(options),
        *workload.services(options),
        workload.deployment(options),
        *workload.surroundings(options),
        *([workload.monitor(options)] if options.service_monitor else []),
        *workload.webhooks(options),
    ]
