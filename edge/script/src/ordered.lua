-- `runtime.lua_insertion_order`: tables that scripts make with `{}` or with named members remember the
-- order in which their keys were first set, and `pairs` and `next` follow it, as gopher-lua's do. Runs
-- last, under the name [throng], in VMs whose modules were translated for it: their constructors call
-- `ordered`, which hides a metatable behind the table. What was set raw comes first, then the others.

local getmetatable, next, pairs, rawget, rawset = getmetatable, next, pairs, rawget, rawset
local setmetatable, type, gmatch = setmetatable, type, string.gmatch

-- Says that a metatable is ours.
local MARK = {}
-- Keys after which those that are gone are forgotten.
local KEYS_MIN = 64

local function forget(t, meta)
  local keys, pos, kept = {}, {}, 0
  for at = 1, meta.count do
    local key = meta.keys[at]
    if rawget(t, key) ~= nil then
      kept = kept + 1
      keys[kept], pos[key] = key, kept
    end
  end
  meta.keys, meta.pos, meta.count = keys, pos, kept
  meta.most = 2 * kept > KEYS_MIN and 2 * kept or KEYS_MIN
end

-- A key that is not there is set.
local function record(t, key, value)
  rawset(t, key, value)
  if value ~= nil then
    local meta = getmetatable(t)
    if meta.pos[key] == nil then
      local count = meta.count + 1
      meta.keys[count], meta.pos[key], meta.count = key, count, count
      if count > meta.most then
        forget(t, meta)
      end
    end
  end
end

-- The first new key of a table whose metatable is shared: it gets its own.
local function part(t, key, value)
  local shared = getmetatable(t)
  if key == 1 and shared.count == 0 then
    -- A list needs no order.
    setmetatable(t, nil)
    rawset(t, key, value)
    return
  end
  local keys, pos = {}, {}
  for at = 1, shared.count do
    keys[at] = shared.keys[at]
    pos[keys[at]] = at
  end
  setmetatable(t, {
    mark = MARK, keys = keys, pos = pos, count = shared.count, most = KEYS_MIN, __newindex = record,
  })
  record(t, key, value)
end

local function shape(names)
  local keys, pos, count = {}, {}, 0
  for name in gmatch(names, "[^ ]+") do
    if pos[name] == nil then
      count = count + 1
      keys[count], pos[name] = name, count
    end
  end
  return { mark = MARK, keys = keys, pos = pos, count = count, __newindex = part }
end

local empty = shape("")
local shapes, shape_count = {}, 0
-- Texts given to `loadstring` could make any number.
local SHAPES_MAX = 4096

-- What constructors call: with the names of their members, or none.
function string.__ordered(t, names)
  if names == nil then
    return setmetatable(t, empty)
  end
  local meta = shapes[names]
  if meta == nil then
    if shape_count >= SHAPES_MAX then
      shapes, shape_count = {}, 0
    end
    meta, shape_count = shape(names), shape_count + 1
    shapes[names] = meta
  end
  return setmetatable(t, meta)
end

local function ours(t)
  local meta = getmetatable(t)
  if type(meta) == "table" and rawget(meta, "mark") == MARK then
    return meta
  end
  return nil
end

local function ordered_next(t, key)
  local meta = ours(t)
  if meta == nil then
    return next(t, key)
  end
  local pos, keys, at, value = meta.pos, meta.keys, 0, nil
  if key == nil or pos[key] == nil then
    repeat
      key, value = next(t, key)
      if key == nil then
        break
      end
    until pos[key] == nil
    if key ~= nil then
      return key, value
    end
  else
    at = pos[key]
  end
  for index = at + 1, meta.count do
    value = rawget(t, keys[index])
    if value ~= nil then
      return keys[index], value
    end
  end
  return nil
end

_G.next = ordered_next

function _G.pairs(t)
  if ours(t) then
    return ordered_next, t, nil
  end
  return pairs(t)
end

function _G.getmetatable(value)
  if ours(value) then
    return nil
  end
  return getmetatable(value)
end

function _G.setmetatable(t, meta)
  if meta == nil and ours(t) then
    return t
  end
  return setmetatable(t, meta)
end
