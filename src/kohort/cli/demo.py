"""`kohort demo`."""

import sys

import click


@click.command("demo")
@click.option("--patience", default=180.0, show_default=True, metavar="SECONDS", help="Give up after this time.")
def command(patience: float) -> None:
    """Serve a sharded language model of real processes on a cluster of its own; release, resize and roll it back.

    This takes about a minute and removes everything at the end. The exit code is 0 if all steps succeeded and every
    request was answered.
    """
    import asyncio

    from kohort.demo import isolation

    if not isolation.enter():
        click.echo("(the kernel grants no namespaces here: the demo uses this machine's network)")
    from kohort.demo.run import run

    sys.exit(asyncio.run(run(patience)))
