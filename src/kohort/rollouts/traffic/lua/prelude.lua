-- What a script finds around it: base, math, table, string and json. Runs before every script, in a fresh state.
-- Values cross the border as JSON text only, so no object of the host is ever within reach.

for _, name in ipairs({
  "os", "io", "debug", "package", "require", "module", "dofile", "loadfile", "load", "loadstring", "python", "newproxy",
  "collectgarbage", "gcinfo", "getfenv", "setfenv", "coroutine",
}) do
  _G[name] = nil
end
string.dump = nil
function print() end -- scripts that were tried out elsewhere may still print; the output is dropped

local empty = setmetatable({}, { __mode = "k" }) -- how tables that came in empty were written
local byte, sub, find, format = string.byte, string.sub, string.find, string.format
local char, concat, floor = string.char, table.concat, math.floor

local escapes = { b = "\b", f = "\f", n = "\n", r = "\r", t = "\t", ['"'] = '"', ["\\"] = "\\", ["/"] = "/" }

local function utf8(code)
  if code < 0x80 then return char(code) end
  if code < 0x800 then return char(0xC0 + floor(code / 0x40), 0x80 + code % 0x40) end
  if code < 0x10000 then
    return char(0xE0 + floor(code / 0x1000), 0x80 + floor(code / 0x40) % 0x40, 0x80 + code % 0x40)
  end
  return char(
    0xF0 + floor(code / 0x40000), 0x80 + floor(code / 0x1000) % 0x40, 0x80 + floor(code / 0x40) % 0x40,
    0x80 + code % 0x40)
end

local function decode(text)
  local at = 1
  local value

  local function skip() at = find(text, "[^ \t\r\n]", at) or #text + 1 end
  local function fail(what) error("json: " .. what .. " at position " .. at, 0) end

  local function hex()
    local digits = sub(text, at, at + 3)
    if not find(digits, "^%x%x%x%x$") then fail("bad \\u escape") end
    at = at + 4
    return tonumber(digits, 16)
  end

  local function str()
    local parts, n = {}, 0
    at = at + 1
    while true do
      local stop = find(text, '["\\]', at)
      if not stop then fail("unfinished string") end
      n = n + 1
      parts[n] = sub(text, at, stop - 1)
      at = stop + 1
      if byte(text, stop) == 34 then return concat(parts) end
      local letter = sub(text, at, at)
      at = at + 1
      n = n + 1
      if letter == "u" then
        local code = hex()
        if code >= 0xD800 and code < 0xDC00 and sub(text, at, at + 1) == "\\u" then
          at = at + 2
          code = 0x10000 + (code - 0xD800) * 0x400 + (hex() - 0xDC00)
        end
        parts[n] = utf8(code)
      else
        parts[n] = escapes[letter] or fail("bad escape")
      end
    end
  end

  local function array()
    local result, n = {}, 0
    at = at + 1
    skip()
    if sub(text, at, at) == "]" then at = at + 1; empty[result] = "[]"; return result end
    while true do
      n = n + 1
      result[n] = value()
      skip()
      local sign = sub(text, at, at)
      at = at + 1
      if sign == "]" then return result end
      if sign ~= "," then fail("expected , or ]") end
    end
  end

  local function object()
    local result = {}
    at = at + 1
    skip()
    if sub(text, at, at) == "}" then at = at + 1; empty[result] = "{}"; return result end
    while true do
      skip()
      if sub(text, at, at) ~= '"' then fail("expected a name") end
      local name = str()
      skip()
      if sub(text, at, at) ~= ":" then fail("expected :") end
      at = at + 1
      result[name] = value()
      skip()
      local sign = sub(text, at, at)
      at = at + 1
      if sign == "}" then return result end
      if sign ~= "," then fail("expected , or }") end
    end
  end

  function value()
    skip()
    local sign = sub(text, at, at)
    if sign == "{" then return object() end
    if sign == "[" then return array() end
    if sign == '"' then return str() end
    for word, meaning in pairs({ ["true"] = true, ["false"] = false }) do
      if sub(text, at, at + #word - 1) == word then at = at + #word; return meaning end
    end
    if sub(text, at, at + 3) == "null" then at = at + 4; return nil end
    local first, last = find(text, "^-?%d+%.?%d*[eE]?[+-]?%d*", at)
    if not first then fail("unexpected character") end
    at = last + 1
    return tonumber(sub(text, first, last))
  end

  local result = value()
  skip()
  if at <= #text then fail("more text than one value") end
  return result
end

local function quoted(text)
  return '"' .. text:gsub('[%c"\\]', function(c) return format("\\u%04x", byte(c)) end) .. '"'
end

local function encode(whole)
  local seen = {}
  local value

  local function array(list, length)
    local parts = {}
    for i = 1, length do
      if list[i] == nil then error("json: an array has a hole at position " .. i, 0) end
      parts[i] = value(list[i])
    end
    return "[" .. concat(parts, ",") .. "]"
  end

  local function tbl(t)
    if seen[t] then error("json: the same table stands in two places", 0) end
    seen[t] = true
    local count, highest, names = 0, 0, {}
    for key in pairs(t) do
      count = count + 1
      if type(key) == "number" then
        if key < 1 or key ~= floor(key) then error("json: an array has the index " .. key, 0) end
        if key > highest then highest = key end
      elseif type(key) == "string" then
        names[#names + 1] = key
      else
        error("json: a table has a key of type " .. type(key), 0)
      end
    end
    if count == 0 then return empty[t] or "null" end
    if #names == 0 then
      if highest ~= count then error("json: an array has holes, it must be dense", 0) end
      return array(t, highest)
    end
    if highest > 0 then error("json: a table has both names and numbers as keys", 0) end
    table.sort(names)
    local parts = {}
    for i, name in ipairs(names) do parts[i] = quoted(name) .. ":" .. value(t[name]) end
    return "{" .. concat(parts, ",") .. "}"
  end

  function value(v)
    local kind = type(v)
    if kind == "nil" then return "null" end
    if kind == "boolean" then return tostring(v) end
    if kind == "string" then return quoted(v) end
    if kind == "table" then return tbl(v) end
    if kind == "number" then
      if v ~= v or v == math.huge or v == -math.huge then error("json: not a finite number", 0) end
      if v == floor(v) and v > -1e15 and v < 1e15 then return format("%d", v) end
      return format("%.17g", v)
    end
    error("json: cannot write a " .. kind, 0)
  end

  return value(whole)
end

json = { encode = encode, decode = decode }
return decode, encode
