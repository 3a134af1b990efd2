"""`kohort dashboard`: what `get`, `explain`, `history` and `plan` say, as pages that follow the cluster.

The path of one page, from the cluster to the browser:

| module | what it does |
|---|---|
| `cluster_cache` | keeps objects current by watches, and makes a `Snapshot` of a set from them |
| `access`, `sessions` | who asks, and what that user may read and write |
| `fleet`, `set_page`, `release_page`, ... | view models: typed structs, the same for HTML and for JSON |
| `pages` | HTML from view models; `html` escapes everything that is not HTML already |
| `views` | which view a path means |
| `live` | sends the sections of a page that have changed, as server-sent events |
| `server` | routes, headers, limits |

Nothing is decided here about sets: states, causes, forecasts and diffs come from `kohort.inspection`.
"""
