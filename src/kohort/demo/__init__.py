"""`kohort demo`: a sharded language model of real processes, served, released, resized and rolled back in a minute.

| module | what it does |
|---|---|
| `server` | the model server itself; a program of its own that knows nothing of kohort |
| `manifests` | the objects of the story: set, Service, route, Rollout |
| `home` | a cluster of its own, from start to last trace |
| `traffic` | a client that never stops asking, and counts |
| `story` | what happens, chapter by chapter |
| `view` | how it is shown, on a terminal and elsewhere |

The client's figures are the proof: requests are streamed through the gateway from the first ready group to the end, and
one that is not answered in full makes the whole demo fail.
"""
