"""`kohort set image`."""

import click

from kohort.cli.connection import CommandTarget, cluster_options, execute, workload_argument


@click.command("set")
@click.argument("what", type=click.Choice(["image"]))
@workload_argument()
@click.argument("images", nargs=-1, required=True, metavar="[CONTAINER=]IMAGE...")
@click.option("--role", type=click.Choice(["all", "leader", "worker"]), default="all", help="Which pods of groups.")
@click.option("--change-cause", default="", metavar="TEXT", help="Why; shown by `kohort history`.")
@click.option("--dry-run", is_flag=True, help="Only ask the server whether it would accept it.")
@cluster_options
def command(
    what: str, name: str, images: tuple[str, ...], role: str, change_cause: str, dry_run: bool, target: CommandTarget
) -> None:
    """Give containers of a workload another image: kohort set image llm main=registry.example.com/model:2

    Without CONTAINER=, the first container of each pod gets it.
    """
    from kohort.cli.actions import set_image

    wanted: dict[str, str] = {}
    for one in images:
        container, equals, image = one.partition("=")
        if equals and not (container and image):
            raise click.UsageError(f"{one!r} is not of the form CONTAINER=IMAGE")
        wanted[container if equals else set_image.FIRST] = image if equals else one
    if len(wanted) < len(images):
        raise click.UsageError("one container is named twice")
    execute(
        target,
        lambda client, namespace: set_image.set_images(client, namespace, name, wanted, role, change_cause, dry_run),
    )
