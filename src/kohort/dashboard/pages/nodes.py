"""Nodes by topology."""

from collections.abc import Sequence
from itertools import groupby

from kohort.dashboard.html import Child, Html, path, tag
from kohort.dashboard.nodes_page import Domain, GroupOnNode, NodeResource, NodeRow, NodesPage
from kohort.dashboard.pages.elements import BAD, OK, QUIET, hidden, pill, section, set_path
from kohort.dashboard.view import Section
from kohort.inspection.readable_amounts import readable_amount
from kohort.objects.counted_nouns import counted


def nodes_sections(page: NodesPage) -> tuple[Section, ...]:
    outer = [[*inside] for _, inside in groupby(page.domains, key=lambda one: one.values[:1])]
    sections = [_head(page), *(_domain(one, number, page.topology) for number, one in enumerate(outer))]
    if page.pages > 1:
        sections.append(_pager(page))
    return tuple(sections)


def _head(page: NodesPage) -> Section:
    tiles = [_tile("node" if page.total == 1 else "nodes", str(page.total), None)]
    for one in page.accelerators:
        name = one.resource
        label = f"{name} free of {readable_amount(name, one.allocatable)}"
        tiles.append(_tile(label, readable_amount(name, one.free), one))
    words = "Only pods that you may see are counted: less may be free." if page.partial else ""
    note = tag("p", words, class_="quiet-text after") if words else None
    return Section(
        "nodes-head", tag("div", tag("h1", "Nodes"), tag("ul", *tiles, class_="tiles"), note, id="nodes-head")
    )


def _tile(label: str, number: str, device: NodeResource | None) -> Html:
    drawn = _bar(device) if device is not None else None
    return tag("li", tag("span", number, class_="number"), tag("span", label, class_="label"), drawn, class_="tile")


def _bar(device: NodeResource) -> Html:
    """How much is free, as the words beside it say."""
    words = f"{_amounts(device)} {device.resource} free"
    back = tag("rect", x="0", y="0", width="100", height="6", class_="open")
    front = tag("rect", x="0", y="0", width=f"{100 * device.free_share:.1f}", height="6", class_="full")
    return tag(
        "svg",
        back,
        front,
        class_="free-bar",
        viewBox="0 0 100 6",
        role="img",
        aria_label=words,
        preserveAspectRatio="none",
    )


def _domain(inside: Sequence[Domain], number: int, topology: Sequence[str]) -> Section:
    """A card for each value of the outermost label, with the domains below it beside each other."""
    first = inside[0]
    title = _place(topology[:1], first.values[:1]) or "All nodes"
    if len(topology) < 2:
        return section(f"domain-{number}", title, _nodes(first), more=_free(first))
    inner = [
        tag("div", tag("h3", _place(topology[1:], one.values[1:])), _free(one), _nodes(one), class_="rack")
        for one in inside
    ]
    return section(f"domain-{number}", title, tag("div", *inner, class_="racks"))


def _place(topology: Sequence[str], values: Sequence[str]) -> str:
    """The name of a label only where its value does not say it.

    >>> _place(["topology.kubernetes.io/zone", "example.com/rack"], ["eu-west-1a", "rack-7"])
    'zone eu-west-1a / rack-7'
    """
    words = []
    for key, value in zip((one.rpartition("/")[2] for one in topology), values, strict=True):
        words.append(value if key in value else f"{key} {value}" if value else f"no {key}")
    return " / ".join(words)


def _free(domain: Domain) -> Html:
    free = [f"{_amounts(one)} {one.resource} free" for one in domain.accelerators]
    return tag("p", ", ".join(free) or "no accelerators", class_="quiet-text")


def _amounts(device: NodeResource) -> str:
    return f"{readable_amount(device.resource, device.free)} of {readable_amount(device.resource, device.allocatable)}"


def _nodes(domain: Domain) -> Html:
    return tag("ul", *(_node(one) for one in domain.nodes), class_="grid")


def _node(node: NodeRow) -> Html:
    tone = OK if node.ready and node.schedulable else BAD if not node.ready else QUIET
    marks: list[Child] = []
    if not node.ready:
        marks.append(pill("not ready", BAD))
    if not node.schedulable:
        marks.append(pill("cordoned", QUIET))
    top = tag("div", tag("h3", node.name), *marks, class_="cell-top")
    heading = tag("li", tag("span"), tag("span"), tag("span", "free"), aria_hidden="true")
    devices = [
        tag("li", tag("span", one.resource), _bar(one), tag("span", _amounts(one), hidden(" free")))
        for one in node.devices
    ]
    of_sets = [[*found] for _, found in groupby(node.groups, key=lambda one: (one.namespace, one.set))]
    groups = tag("ul", *(_set(one) for one in of_sets), class_="placed") if of_sets else None
    others = tag("p", counted(node.other_pods, "other pod"), class_="sub") if node.other_pods else None
    drain = tag("p", tag("a", "What a drain would take", href=path("nodes", node.name, "drain")), class_="sub drain")
    return tag("li", top, tag("ul", heading, *devices, class_="devices"), groups, others, drain, class_=f"cell {tone}")


def _set(groups: Sequence[GroupOnNode]) -> Html:
    """The groups of one set on a node."""
    first, pods = groups[0], sum(one.pods for one in groups)
    words = f"{'groups' if len(groups) > 1 else 'group'} {number_ranges([one.group for one in groups])}"
    if pods > len(groups):
        words += f", {counted(pods, 'pod')}"
    where = set_path(first.namespace, first.set) + (f"#group-{first.group}" if len(groups) == 1 else "")
    name = tag("a", tag("span", f"{first.namespace}/", class_="quiet-text"), first.set, href=where)
    return tag("li", name, " ", tag("span", words, class_="quiet-text"))


def number_ranges(numbers: Sequence[int]) -> str:
    """
    >>> number_ranges([0, 2, 3, 4, 7, 8])
    '0, 2–4, 7, 8'
    """
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(f"{one[0]}–{one[-1]}" if len(one) > 2 else ", ".join(map(str, one)) for one in runs)


def _pager(page: NodesPage) -> Section:
    links: list[Child] = [tag("span", f"page {page.page} of {page.pages}", class_="sub")]
    for text, number in (("Previous", page.page - 1), ("Next", page.page + 1)):
        if 1 <= number <= page.pages:
            links.append(tag("a", text, href=path("nodes", query=[("page", str(number))]), class_="button plain"))
    return Section("pager", tag("nav", *links, id="pager", class_="pager", aria_label="Pages"))
