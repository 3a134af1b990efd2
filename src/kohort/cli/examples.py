"""`kohort examples`."""

import click

from kohort.cli.connection import fail


@click.command("examples")
@click.argument("name", required=False)
def command(name: str | None) -> None:
    """List the example manifests, or print one of them, for `kubectl apply -f -`."""
    from kohort.install import examples

    found = examples.manifests()
    if name is None:
        width = max(map(len, found))
        for each, text in found.items():
            click.echo(f"{each:{width}}  {examples.summary(text)}")
    elif (wanted := name.removesuffix(".yaml")) in found:
        click.echo(found[wanted], nl=False)
    else:
        fail(f"there is no example {name!r}; there are {', '.join(found)}")
