-- Runs in every VM before anything else, under the name [throng]; what it returns is called once
-- all modules are loaded. From then on nothing that a call does to globals, to the libraries, to
-- `nk` or to `package` is seen by another call. Tables that modules have put into globals become
-- read-only, as Nakama's are; what modules keep in locals is theirs.
--
-- A sealed table is moved into a base that scripts cannot reach; in its place it keeps nothing,
-- reads through to the base, and is read-only for whoever writes raw. What is written to it goes
-- into an overlay in front of the base, which is thrown away when the call ends.

local touched = ...

local error, getfenv, getmetatable, next, pcall = error, getfenv, getmetatable, next, pcall
local rawget, setmetatable, type = rawget, setmetatable, type
local clear, freeze = table.clear, table.freeze
local info, set_environment = debug.info, setfenv
local globals, string_methods, string_metatable = _G, string, getmetatable("")
local libraries = { string, table, math, os, bit32, utf8 }

-- Metatables of sealed tables by table, and the tables that they read through to by metatable.
local sealed, base_of = {}, {}
-- Metatables of the tables that have an overlay just now, and how many there are.
local overlaid, overlaid_count = {}, 0
-- Functions whose environment was changed by the call, each before what it was.
local moved, moved_count = {}, 0
-- Modules that are being loaded: what they define is there to stay.
local loading = 0

-- What is written to a sealed table.
local function write(t, key, value)
  local meta = sealed[t]
  local base = base_of[meta]
  if loading > 0 then
    base[key] = value
    return
  end
  local overlay = meta.__index
  if overlay == base then
    touched()
    overlay = setmetatable({}, { __index = base })
    -- Memory may run out at each step: nothing is changed that would not be changed back.
    overlaid[overlaid_count + 1] = meta
    overlaid_count += 1
    meta.__index = overlay
  end
  overlay[key] = value
end

local function seal(t)
  local base, own = {}, getmetatable(t)
  if sealed[t] or own ~= nil and type(own) ~= "table" then
    -- Whoever locks the metatable of a library has taken its protection on himself.
    return
  end
  for key, value in next, t do
    base[key] = value
  end
  setmetatable(base, own)
  clear(t)
  -- Weak, so that the next collection takes the room that it has had.
  local meta = { __index = base, __newindex = write, __metatable = nil, __mode = "ks" }
  sealed[t], base_of[meta] = meta, base
  freeze(setmetatable(t, meta))
  meta.__metatable = "sealed"
end

-- Raw access to what is sealed would find nothing, and could not write.
local function see_through(base)
  local rawget, rawset, setfenv = base.rawget, base.rawset, base.setfenv
  function base.rawget(t, key)
    local meta = sealed[t]
    if meta and key ~= nil then
      return meta.__index[key]
    end
    return rawget(t, key)
  end
  function base.rawset(t, key, value)
    if sealed[t] then
      t[key] = value
      return t
    end
    return rawset(t, key, value)
  end
  function base.setfenv(target, environment)
    if target == 0 then
      error("setfenv of the whole thread is not possible in a call", 2)
    end
    if type(target) == "number" then
      target = info(target + 1, "f")
    end
    if loading == 0 and type(target) == "function" then
      touched()
      moved[moved_count + 1], moved[moved_count + 2] = target, getfenv(target)
      moved_count += 2
    end
    return setfenv(target, environment)
  end
end

local seals = {}

-- Seals libraries and globals, and the other tables that are given.
function seals.seal(others)
  for _, library in next, libraries do
    seal(library)
  end
  for _, other in next, others do
    seal(other)
  end
  for _, value in next, globals do
    if type(value) == "table" and value ~= globals and not sealed[value] then
      -- Fails if it is frozen already, or locked.
      pcall(freeze, value)
    end
  end
  seal(globals)
  if sealed[globals] then
    see_through(base_of[sealed[globals]])
  end
  local meta = sealed[string_methods]
  if meta and string_metatable.__index == string_methods then
    -- Methods of strings are found at once; only what is not there is looked for in the overlay.
    local base = base_of[meta]
    if string_metatable.__metatable == nil then
      -- What `getmetatable("")` shows from now on leads to the sealed table, not to its base.
      local shown = {}
      for key, value in next, string_metatable do
        shown[key] = value
      end
      string_metatable.__metatable = freeze(shown)
    end
    string_metatable.__index = base
    if not getmetatable(base) then
      setmetatable(base, {
        __index = function(_, key)
          local overlay = meta.__index
          return overlay ~= base and rawget(overlay, key) or nil
        end,
      })
    end
  end
end

-- Throws away what the last call has left. Allocates nothing.
function seals.clean()
  loading = 0
  for index = 1, overlaid_count do
    local meta = overlaid[index]
    meta.__index = base_of[meta]
    overlaid[index] = nil
  end
  overlaid_count = 0
  for index = moved_count - 1, 1, -2 do
    set_environment(moved[index], moved[index + 1])
    moved[index], moved[index + 1] = nil, nil
  end
  moved_count = 0
end

-- Takes away what the call that waits from now on has left, to be put back when it goes on: metatables
-- of sealed tables and their overlays, functions and their environments.
function seals.set_aside()
  local overlays, environments = {}, {}
  for index = 1, overlaid_count do
    local meta = overlaid[index]
    overlays[2 * index - 1], overlays[2 * index] = meta, meta.__index
  end
  for index = 1, moved_count - 1, 2 do
    environments[index], environments[index + 1] = moved[index], getfenv(moved[index])
  end
  seals.clean()
  return { overlays, environments }
end

function seals.put_back(kept)
  touched()
  local overlays, environments = kept[1], kept[2]
  for index = 1, #overlays, 2 do
    local meta = overlays[index]
    meta.__index = overlays[index + 1]
    overlaid_count += 1
    overlaid[overlaid_count] = meta
  end
  for index = 1, #environments, 2 do
    local target = environments[index]
    moved[moved_count + 1], moved[moved_count + 2] = target, getfenv(target)
    moved_count += 2
    set_environment(target, environments[index + 1])
  end
end

-- A module begins or ends loading, in a call.
function seals.load(step)
  if step > 0 then
    touched()
  end
  loading += step
end

return seals
