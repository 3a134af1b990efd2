"""`release stop --keep-stable`: end a release and its Rollout without shipping the new version.

Deleting or disabling a Rollout midway lets the workload go on to the new version natively. So the order is: the stable
template back, the release put away, and only then the Rollout disabled or deleted.
"""

import asyncio

import click

from kohort.cli.actions import snapshot_reader
from kohort.cli.actions.change_watch import Changes
from kohort.cli.actions.edit import return_to
from kohort.cli.actions.output_formats import show
from kohort.cli.connection import TOO_LATE, Refusal
from kohort.inspection import allowed_commands
from kohort.inspection.advice import Verb
from kohort.inspection.release_subject import command, title
from kohort.inspection.served_revisions import Version
from kohort.inspection.snapshot import Snapshot
from kohort.inspection.workload import PlainWorkload
from kohort.kube.client import Client
from kohort.kube.resources import ROLLOUTS
from kohort.objects.json_types import JsonObject
from kohort.rollouts.rollout_types import Rollout


async def stop_release(
    client: Client, namespace: str, name: str, *, delete: bool, yes: bool, dry_run: bool, timeout: float
) -> int:
    found = await snapshot_reader.subject(client, namespace, name, rollout_needed=True)
    rollout = found.rollout
    if rollout is None:
        raise Refusal(f"no Rollout releases {title(found)}: there is nothing to stop")
    stable = _stable(found)
    show(preview(found, rollout, stable, delete))
    if dry_run:
        return 0
    if not yes:
        click.confirm("Go on?", abort=True)
    if stable is not None:
        await return_to(client, found, stable)
    if found.releasing and not await _put_away(client, namespace, found.reference, timeout):
        click.echo(
            f"kohort: the release of {found.reference} is not put away after {timeout:g} s, so Rollout "
            f"{rollout.metadata.name} is unchanged; find out why with: {command(found, Verb.EXPLAIN).text}",
            err=True,
        )
        return TOO_LATE
    await _end(client, rollout, delete)
    ended = f"Rollout {rollout.metadata.name} is {'deleted' if delete else 'disabled'}"
    show([f"{ended}; {title(found)} stays at its stable version"])
    return 0


def _stable(found: Snapshot | PlainWorkload) -> Version | None:
    """What to return to; None if the template is the stable one already."""
    if not found.releasing or found.stable_key == found.update_key:
        return None
    if refused := allowed_commands.abort_refusal(found):
        raise Refusal(refused)
    return next(one for one in found.versions if one.key == found.stable_key)


def preview(found: Snapshot | PlainWorkload, rollout: Rollout, stable: Version | None, delete: bool) -> list[str]:
    lines = []
    if stable is not None:
        lines.append(f"{title(found)} returns to revision {stable.number} ({stable.key}: {' '.join(stable.images)}).")
        lines.append("The new version is given up; requests go to the stable one.")
    elif found.releasing:
        lines.append(f"{title(found)} has its stable template already; its release is put away.")
    else:
        lines.append(f"{title(found)} is not being released; its template stays.")
    lines.append(f"Then Rollout {rollout.metadata.name} is {'deleted' if delete else 'disabled'}: later changes of")
    lines[-1] += f" {found.reference} roll out without steps."
    return lines


async def _put_away(client: Client, namespace: str, name: str, timeout: float) -> bool:
    try:
        async with asyncio.timeout(timeout), Changes(client, namespace, name) as changes:
            while True:
                await changes.next()
                found = await snapshot_reader.subject(client, namespace, name)
                if not found.releasing and found.rollout is not None and found.stable_key == found.update_key:
                    return True
    except TimeoutError:
        return False


async def _end(client: Client, rollout: Rollout, delete: bool) -> None:
    metadata = rollout.metadata
    if delete:
        await client.delete(ROLLOUTS, metadata.name, metadata.namespace, uid=metadata.uid)
        return
    body: JsonObject = {"spec": {"disabled": True}}
    await client.patch(ROLLOUTS, metadata.name, metadata.namespace, body)
