"""Whole releases on a whole cluster: what a user sees, from the change of a template to the end."""

from tests.rollouts.releases import V2, Story, release_cluster

from kohort.rollouts import wire


async def test_a_canary_release_from_the_first_group_to_promotion() -> None:
    async with release_cluster() as (cluster, _):
        story = Story(cluster)
        await story.begin()
        first = {one["metadata"]["uid"] for one in story.pods()}
        await story.change(V2)
        assert story.rolling()["partition"] == 1_000_000
        await story.at(1)
        assert story.canary["spec"]["replicas"] == 1
        assert {one["metadata"]["uid"] for one in story.pods()} == first, "stable groups are never touched"
        stable_hash = story.stable["metadata"]["labels"][wire.STABLE_REVISION]
        assert story.selector("llm-leader")[wire.GROUP_REVISION] == stable_hash
        canary = story.selector("llm-leader-canary")
        assert canary[wire.GROUP_SET] == story.canary["metadata"]["name"]
        assert canary[wire.WORKER_INDEX] == "0"
        await story.approve()
        await story.at(2)
        assert story.weight() == "20"
        await story.healthy(V2)
        assert story.rolling() == {"partition": 0, "maxUnavailable": 1, "maxSurge": 0}
        succeeded = story.condition("Succeeded")
        assert succeeded is not None
        assert succeeded["status"] == "True"
