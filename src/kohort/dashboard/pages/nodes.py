"""Nodes by topology."""

from collections.abc import Sequence

from kohort.dashboard.html import Child, Html, path, tag
from kohort.dashboard.nodes_page import Device, Domain, GroupOnNode, NodeRow, NodesPage
from kohort.dashboard.pages.elements import BAD, OK, QUIET, pill, section, set_path
from kohort.dashboard.view import Section


def nodes_sections(page: NodesPage) -> tuple[Section, ...]:
    sections = [_head(page)]
    sections += [_domain(one, number, page.topology) for number, one in enumerate(page.domains)]
    if page.pages > 1:
        sections.append(_pager(page))
    return tuple(sections)


def _head(page: NodesPage) -> Section:
    tiles = [_tile("nodes", str(page.total), None)]
    tiles += [_tile(f"{one.resource} free of {one.allocatable}", one.free, one) for one in page.accelerators]
    words = "Only pods that you may see are counted: less may be free." if page.partial else ""
    note = tag("p", words, class_="quiet-text after") if words else None
    return Section(
        "nodes-head", tag("div", tag("h1", "Nodes"), tag("ul", *tiles, class_="tiles"), note, id="nodes-head")
    )


def _tile(label: str, number: str, device: Device | None) -> Html:
    drawn = _bar(device) if device is not None else None
    return tag("li", tag("span", number, class_="number"), tag("span", label, class_="label"), drawn, class_="tile")


def _bar(device: Device) -> Html:
    """How much is requested."""
    taken = 100 * (1 - device.free_share)
    words = f"{device.requested} of {device.allocatable} {device.resource} requested"
    back = tag("rect", x="0", y="0", width="100", height="6", rx="1.5", class_="open")
    front = tag("rect", x="0", y="0", width=f"{taken:.1f}", height="6", rx="1.5", class_="full")
    return tag(
        "svg",
        back,
        front,
        class_="use",
        viewBox="0 0 100 6",
        role="img",
        aria_label=words,
        preserveAspectRatio="none",
    )


def _domain(domain: Domain, number: int, topology: Sequence[str]) -> Section:
    values = [one or "none" for one in domain.values]
    names = [f"{key.rpartition('/')[2]} {value}" for key, value in zip(topology, values, strict=True)]
    free = [f"{one.free} of {one.allocatable} {one.resource} free" for one in domain.accelerators]
    more = tag("span", ", ".join(free) or "no accelerators", class_="quiet-text")
    grid = tag("ul", *(_node(one) for one in domain.nodes), class_="grid")
    return section(f"domain-{number}", " / ".join(names) or "All nodes", grid, more=more)


def _node(node: NodeRow) -> Html:
    tone = OK if node.ready and node.schedulable else BAD if not node.ready else QUIET
    marks: list[Child] = []
    if not node.ready:
        marks.append(pill("not ready", BAD))
    if not node.schedulable:
        marks.append(pill("cordoned", QUIET))
    top = tag("div", tag("h3", node.name), *marks, class_="cell-top")
    devices = [
        tag("li", tag("span", one.resource, class_="sub"), _bar(one), tag("span", f"{one.free} free", class_="sub"))
        for one in node.devices
    ]
    groups = tag("ul", *(_group(one) for one in node.groups), class_="placed") if node.groups else None
    others = tag("p", f"{node.other_pods} other pods", class_="sub") if node.other_pods else None
    drain = tag("p", tag("a", "What a drain would take", href=path("nodes", node.name, "drain")), class_="sub drain")
    return tag("li", top, tag("ul", *devices, class_="devices"), groups, others, drain, class_=f"cell {tone}")


def _group(one: GroupOnNode) -> Html:
    pods = f" ×{one.pods}" if one.pods > 1 else ""
    words = f"{one.set} {one.group}{pods}"
    return tag("li", tag("a", words, href=set_path(one.namespace, one.set), class_="chip", title=one.namespace))


def _pager(page: NodesPage) -> Section:
    links: list[Child] = [tag("span", f"page {page.page} of {page.pages}", class_="sub")]
    for text, number in (("Previous", page.page - 1), ("Next", page.page + 1)):
        if 1 <= number <= page.pages:
            links.append(tag("a", text, href=path("nodes", query=[("page", str(number))]), class_="button plain"))
    return Section("pager", tag("nav", *links, id="pager", class_="pager", aria_label="Pages"))
