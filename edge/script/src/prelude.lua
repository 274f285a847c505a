-- Runs first in every VM, under the name [throng]. Gives scripts what Lua 5.1 has and Luau has
-- not, the module "nakama", `require`, and gives Rust the entry points that it calls. Whatever a
-- script can replace later is kept in a local here. What only calls or only matches need is in
-- calls.lua and match.lua.

local native, is_match = ...

local error, getfenv, getmetatable, pairs = error, getfenv, getmetatable, pairs
local pcall, rawget, rawset, select = pcall, rawget, rawset, select
local setmetatable, tostring, type, xpcall = setmetatable, tostring, type, xpcall
local sub = string.sub
local traceback = debug.traceback
-- `entry.traceback` tells Rust where a coroutine stands that waits.
local entry, spare_memory = { traceback = traceback }, native.spare_memory

-- For the parts that may be loaded later, when scripts may have put their own in these places.
native.error, native.pairs, native.pcall, native.tostring = error, pairs, pcall, tostring
native.type, native.xpcall, native.sub, native.unpack = type, xpcall, sub, string.unpack
native.select, native.clone = select, table.clone

string.pack, string.unpack, string.packsize = nil, nil, nil
debug = nil
local yield, isyieldable = coroutine.yield, coroutine.isyieldable
native.yield = yield
-- What a script's coroutine did would be taken for a wait of the call; Nakama has none either.
coroutine = nil

-- Errors.

local trace

local function handler(problem)
  if problem == "not enough memory" then
    spare_memory()
  end
  trace = traceback("", 2)
  return problem
end

-- What Rust is told of an error: false, text, code or nil, traceback.
local function fail(problem)
  local at = trace
  trace = nil
  if type(problem) == "table" then
    local message, code = problem[1], problem[2]
    if message == nil then
      message, code = problem.message, problem.code
    end
    if message == nil then
      message = problem
    end
    if type(code) ~= "number" then
      code = nil
    end
    return false, tostring(message), code, at
  end
  local text = tostring(problem)
  if sub(text, -27) == "attempt to call a nil value" then
    text = native.name_callee(text)
  end
  return false, text, nil, at
end

-- What Rust is told of a call: true and the last value that it returned, or as above.
local function outcome(ok, ...)
  if not ok then
    return fail((...))
  end
  local count = select("#", ...)
  if count == 0 then
    return true
  end
  return true, (select(count, ...))
end

local function wrong(level, index, name, what)
  error("bad argument #" .. index .. " to " .. name .. " (" .. what .. ")", level + 1)
end

-- The module "nakama": functions of the host table are bound when they are first used.

local nk = {}

local function finish(ok, first, ...)
  if ok then
    return first, ...
  end
  error(first, 3)
end

-- Modules that load in the middle of a call: others would find them half made, so that it cannot wait,
-- and does not pause.
local late_count = 0

-- A function that asks has returned: nothing, if the call is to wait for the answer.
local function answered(ok, ...)
  if ok == nil then
    return yield()
  end
  return ok, ...
end

-- The functions of calls.lua: a match seldom needs them, so its VM loads them when they are asked for.
local has_calls, is_loading = false, true

local function loading_ends()
  is_loading = false
end

local function load_calls(module)
  has_calls = true
  local part = native.part("calls")
  part(native, module, entry, outcome, handler, wrong, is_match, loading_ends, function()
    return is_loading
  end)
end

local others = { get_context = true, run_once = true, storage_write_retry = true }

setmetatable(nk, {
  __index = function(module, name)
    if type(name) ~= "string" then
      return nil
    elseif not has_calls and (others[name] or sub(name, 1, 9) == "register_") then
      load_calls(module)
      local found = rawget(module, name)
      if found then
        return found
      end
    end
    local raw, asks, fast_path = native.find(name)
    if not raw then
      return nil
    end
    local function bound(...)
      return finish(raw(...))
    end
    if asks then
      bound = function(...)
        return finish(answered(raw(late_count == 0 and isyieldable(), ...)))
      end
    elseif fast_path then
      bound = function(...)
        local is_done, value = fast_path(...)
        if is_done then
          return value
        end
        return finish(raw(...))
      end
    end
    rawset(module, name, bound)
    return bound
  end,
})

-- Modules.

local loaded = { nakama = nk }
local begun = {}
loaded.string, loaded.table, loaded.math = string, table, math
loaded.os, loaded.bit32, loaded.utf8, loaded._G = os, bit32, utf8, _G
package = {
  loaded = loaded, preload = {}, path = "", cpath = "",
  -- For module(): the module's functions see the globals.
  seeall = function(module)
    local meta = getmetatable(module)
    -- A mark: it only keeps the order of keys.
    if not meta or rawget(meta, "mark") then
      meta = {}
      setmetatable(module, meta)
    end
    meta.__index = getfenv(0)
  end,
}
loaded.package = package

local function keep(name, value)
  if value == nil then
    value = loaded[name]
  end
  if value == nil then
    value = true
  end
  loaded[name] = value
  return value
end

-- A module that is loaded in the middle of a call: it stays, and so does what it defines.
local function load_late(name, chunk)
  native.loading(1)
  late_count += 1
  native.hold(late_count)
  local ok, value = pcall(chunk, name)
  if ok then
    -- It may find no memory: then what is counted is counted down all the same.
    ok, value = pcall(keep, name, value)
  end
  late_count -= 1
  native.hold(late_count)
  native.loading(-1)
  if not ok then
    error(value, 0)
  end
  return value
end

function require(name)
  if type(name) ~= "string" then
    error("bad argument #1 to require (string expected, got " .. type(name) .. ")", 2)
  end
  local value = loaded[name]
  if value ~= nil then
    return value
  end
  if begun[name] then
    error("loop or previous error loading module: " .. name, 2)
  end
  local preload = package.preload[name]
  local chunk = preload or native.load_module(name)
  if not chunk then
    error("module " .. name .. " not found", 2)
  end
  begun[name] = true
  if is_loading or preload then
    value = keep(name, chunk(name))
  else
    value = load_late(name, chunk)
  end
  begun[name] = nil
  return value
end

local require = require

-- What calls may change for themselves only, besides globals and libraries.
function entry.sealed()
  return { nk, package, loaded, package.preload }
end

if is_match then
  native.part("match")(native, entry, fail, handler, require, loading_ends)
else
  function entry.load(name)
    return outcome(xpcall(require, handler, name))
  end
  load_calls(nk)
end
return entry
