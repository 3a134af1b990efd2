"""How a set says that resources may change in place."""

import pytest

from kohort.objects.json_types import Json, JsonObject
from kohort.rules.resource_update_policy import ResourceUpdatePolicy, deadline_seconds, resource_update_policy


def spec(**strategy: Json) -> JsonObject:
    return {"rolloutStrategy": strategy}


@pytest.mark.parametrize(
    ("found", "policy"),
    [
        ({}, ResourceUpdatePolicy.RECREATE),
        ({"rolloutStrategy": None}, ResourceUpdatePolicy.RECREATE),
        (spec(type="RollingUpdate"), ResourceUpdatePolicy.RECREATE),
        (spec(resourceUpdatePolicy=None), ResourceUpdatePolicy.RECREATE),
        (spec(resourceUpdatePolicy=""), ResourceUpdatePolicy.RECREATE),
        (spec(resourceUpdatePolicy="Recreate"), ResourceUpdatePolicy.RECREATE),
        (spec(resourceUpdatePolicy="InPlaceOrRecreate"), ResourceUpdatePolicy.IN_PLACE_OR_RECREATE),
        (spec(resourceUpdatePolicy="InPlaceOnly"), ResourceUpdatePolicy.IN_PLACE_ONLY),
        (spec(resourceUpdatePolicy="inplaceonly"), ResourceUpdatePolicy.RECREATE),
        (spec(resourceUpdatePolicy="Somehow"), ResourceUpdatePolicy.RECREATE),
    ],
)
def test_the_policy_of_a_set(found: JsonObject, policy: ResourceUpdatePolicy) -> None:
    assert resource_update_policy(found) is policy


def test_only_recreate_is_not_in_place() -> None:
    assert [one for one in ResourceUpdatePolicy if not one.in_place] == [ResourceUpdatePolicy.RECREATE]


@pytest.mark.parametrize(
    ("found", "seconds"),
    [
        ({}, 420.0),
        ({"rolloutStrategy": None}, 420.0),
        (spec(resourceUpdateDeadlineSeconds=None), 420.0),
        (spec(resourceUpdateDeadlineSeconds=30), 30.0),
        (spec(resourceUpdateDeadlineSeconds=3600), 3600.0),
    ],
)
def test_the_deadline_of_a_group(found: JsonObject, seconds: float) -> None:
    assert deadline_seconds(found) == seconds
