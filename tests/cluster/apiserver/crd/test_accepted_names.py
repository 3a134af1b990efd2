"""Which names a definition gets beside others."""

from hypothesis import given
from hypothesis import strategies as st

from kohort.cluster.apiserver.crd.accepted_names import decide_names
from kohort.cluster.apiserver.crd.definitions import condition, is_established, status_for
from kohort.objects.json_types import Json, JsonObject


def definition(plural: str, group: str = "example.com", status: JsonObject | None = None, **names: Json) -> JsonObject:
    names = {"plural": plural, "singular": plural[:-1], "kind": plural[:-1].title(), **names}
    names.setdefault("listKind", f"{names['kind']}List")
    versions = [{"name": "v1", "served": True, "storage": True}]
    return {
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {"group": group, "names": names, "versions": versions},
        **({"status": status} if status is not None else {}),
    }


def accepted(plural: str, **more: Json) -> JsonObject:
    crd = definition(plural, **more)
    return {**crd, "status": status_for(crd, [])}


def test_free_names_are_accepted_as_they_are() -> None:
    crd = definition("widgets", shortNames=["wd"], categories=["all"])
    verdict = decide_names(crd, [accepted("gadgets")])
    assert not verdict.conflict
    assert verdict.accepted == crd["spec"]["names"]


def test_the_last_conflict_is_the_one_that_is_named() -> None:
    taken = accepted("widgets", shortNames=["wd"])
    for names, reason, message in (
        ({"singular": "widget"}, "SingularConflict", '"widget" is already in use'),
        ({"shortNames": ["wd", "x"]}, "ShortNamesConflict", '"wd" is already in use'),
        ({"kind": "Widget", "listKind": "Other"}, "KindConflict", '"Widget" is already in use'),
        ({"listKind": "WidgetList"}, "ListKindConflict", '"WidgetList" is already in use'),
    ):
        verdict = decide_names(definition("gadgets", **names), [taken])
        assert (verdict.reason, verdict.message) == (reason, message)


def test_other_groups_do_not_matter() -> None:
    other = accepted("widgets", group="other.example.com")
    assert not decide_names(definition("widgets"), [other]).conflict


def test_what_a_definition_holds_it_keeps() -> None:
    first = accepted("widgets", shortNames=["wd"])
    second = definition("gadgets", shortNames=["gd"])
    second["status"] = status_for(second, [first])
    second["spec"]["names"]["shortNames"] = ["gd", "wd"]
    status = status_for(second, [first])
    assert status["acceptedNames"]["shortNames"] == ["gd"]
    assert condition({"status": status}, "NamesAccepted")["reason"] == "ShortNamesConflict"
    assert is_established({"status": status})


def test_names_that_become_free_establish_the_next() -> None:
    first, second = accepted("widgets"), definition("gadgets", kind="Widget")
    waiting = {**second, "status": status_for(second, [first])}
    assert not is_established(waiting)
    assert condition(waiting, "Established")["reason"] == "NotAccepted"
    assert is_established({"status": status_for(waiting, [])})


NAMES = st.sampled_from(["as", "bs", "cs"])
DEFINITIONS = st.lists(
    st.tuples(NAMES, st.sampled_from(["A", "B"]), st.lists(st.sampled_from(["x", "y"]), max_size=2, unique=True)),
    max_size=5,
    unique_by=lambda entry: entry[0],
)


@given(DEFINITIONS)
def test_no_two_established_definitions_share_a_name(entries: list[tuple[str, str, list[str]]]) -> None:
    settled: list[JsonObject] = []
    for plural, kind, short in entries:
        crd = definition(plural, kind=kind, listKind=f"{kind}List", shortNames=short)
        settled.append({**crd, "status": status_for(crd, settled)})
    held = [crd["status"]["acceptedNames"] for crd in settled]
    resources = [
        name for names in held for name in (names["plural"], names.get("singular"), *names.get("shortNames", []))
    ]
    kinds = [name for names in held for name in (names["kind"], names.get("listKind"))]
    for taken in ([name for name in resources if name], [name for name in kinds if name]):
        assert len(taken) == len(set(taken))
