"""Whether a user may have the operator read and send a Secret: only who may `get` the Secret.

It is asked of the cluster with every write that brings a new use of a Secret, and not remembered. If the cluster does
not answer, nothing is allowed.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from kohort.kube.access_reviews import is_allowed, resource_access
from kohort.kube.client import Client
from kohort.kube.errors import ApiError
from kohort.kube.resources import SECRETS
from kohort.objects import field_errors
from kohort.objects.field_errors import FieldError
from kohort.objects.json_types import JsonObject
from kohort.rollouts.analysis.secret_uses import SecretUse

ANSWER_SECONDS: Final = 2.0
"""Less than an API server waits for a webhook."""


class AccessUnknown(Exception):
    """The cluster did not answer whether a user may read a Secret."""


async def refused_uses(client: Client, user: JsonObject, namespace: str, uses: Sequence[SecretUse]) -> list[FieldError]:
    """The uses of Secrets that `user`, as an AdmissionReview describes one, may not read. Raises AccessUnknown."""
    names = sorted({use.secret.name for use in uses})
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            answers = await asyncio.gather(
                *(is_allowed(client, user, resource_access("get", SECRETS, namespace, name)) for name in names)
            )
    except (ApiError, TimeoutError) as problem:
        reason = str(problem) or f"no answer within {ANSWER_SECONDS:g} s"
        raise AccessUnknown(
            f"the cluster did not say whether user {user.get('username')!r} may get the Secrets that it names "
            f"({', '.join(names)}); try again in a moment: {reason}"
        ) from problem
    readable = {name for name, allowed in zip(names, answers, strict=True) if allowed}
    return [_refusal(user, namespace, use) for use in uses if use.secret.name not in readable]


def _refusal(user: JsonObject, namespace: str, use: SecretUse) -> FieldError:
    name = use.secret.name
    sent = f"send it to {use.recipient.address}" if use.recipient is not None else "use it"
    text = (
        f"user {user.get('username')!r} may not get Secret {namespace}/{name}, so may not have the operator {sent}; "
        f"let a user write this who may get the Secret, or allow it to this user: kubectl -n {namespace} create role "
        f"get-{name} --verb=get --resource=secrets --resource-name={name}, and bind it"
    )
    return field_errors.forbidden(use.field, text)
