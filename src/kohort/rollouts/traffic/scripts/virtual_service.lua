-- Istio VirtualService: weights or matches for the canary.
--
-- Without matches, every rule that has no match of its own and leads to the stable Service is divided by weight. With
-- matches, one rule for each of them is put before all others. Where both versions share one Service, the canary is the
-- subset "canary" of it.

local spec = obj.data.spec
local canaryWeight, stableWeight = obj.canaryWeight, obj.stableWeight
if canaryWeight == -1 then canaryWeight, stableWeight = 0, 100 end

local function isStable(route)
  local host = route.destination and route.destination.host
  return type(host) == "string" and string.match(host, "^[^.]+") == obj.stableService
end

-- The canary's destination, spelled like the stable one: same domain, same port.
local function canaryDestination(stable)
  local destination = { host = obj.canaryService }
  if stable then
    destination.host = obj.canaryService .. string.sub(stable.host, #obj.stableService + 1)
    if stable.port then destination.port = { number = stable.port.number } end
  end
  if obj.canaryService == obj.stableService then destination.subset = "canary" end
  return destination
end

local function stableDestination(rules)
  for _, rule in ipairs(rules or {}) do
    for _, route in ipairs(rule.route or {}) do
      if isStable(route) then return route.destination end
    end
  end
end

local function divide(rules)
  for _, rule in ipairs(rules or {}) do
    local stable = not rule.match and stableDestination({ rule })
    if stable then
      local count = #rule.route
      for _, route in ipairs(rule.route) do
        route.weight = route.weight and math.floor(route.weight * stableWeight / 100)
          or math.floor(stableWeight / count)
      end
      table.insert(rule.route, { destination = canaryDestination(stable), weight = canaryWeight })
    end
  end
end

local kinds = { Exact = "exact", RegularExpression = "regex", Prefix = "prefix", PathPrefix = "prefix" }

local function condition(part)
  return { [kinds[part.type or "Exact"] or "exact"] = part.value }
end

local function conditions(parts)
  local result = {}
  for _, part in ipairs(parts) do result[part.name] = condition(part) end
  return result
end

local function byName(headers)
  local result = {}
  for _, header in ipairs(headers) do result[header.name] = header.value end
  return result
end

local function requestHeaders(modifier)
  local request = {}
  if modifier.set and #modifier.set > 0 then request.set = byName(modifier.set) end
  if modifier.add and #modifier.add > 0 then request.add = byName(modifier.add) end
  if modifier.remove and #modifier.remove > 0 then
    request.remove = {}
    for i, name in ipairs(modifier.remove) do request.remove[i] = name end
  end
  return { request = request }
end

local function matched(match)
  local parts = {}
  if match.headers and #match.headers > 0 then parts.headers = conditions(match.headers) end
  if match.queryParams and #match.queryParams > 0 then parts.queryParams = conditions(match.queryParams) end
  if match.path then
    parts.uri = condition({ type = match.path.type or "PathPrefix", value = match.path.value })
  end
  local rule = {
    match = { parts },
    route = { { destination = canaryDestination(stableDestination(spec.http)) } },
  }
  if obj.requestHeaderModifier then rule.headers = requestHeaders(obj.requestHeaderModifier) end
  return rule
end

if obj.matches and #obj.matches > 0 then
  spec.http = spec.http or {}
  for _, match in ipairs(obj.matches) do table.insert(spec.http, 1, matched(match)) end
else
  divide(spec.http)
  divide(spec.tcp)
  divide(spec.tls)
end
return obj.data
