-- Runs first in every VM, under the name [throng]. Gives scripts what Lua 5.1 has and Luau has
-- not, the module "nakama", `require`, and gives Rust the entry points that it calls. Whatever a
-- script can replace later is kept in a local here.

local native, is_match = ...

local error, getfenv, getmetatable, pairs = error, getfenv, getmetatable, pairs
local pcall, rawget, rawset, select = pcall, rawget, rawset, select
local setmetatable, tonumber, tostring, type, xpcall = setmetatable, tonumber, tostring, type, xpcall
local floor, lower, sub = math.floor, string.lower, string.sub
local traceback = debug.traceback
local unpack_bytes = string.unpack
local entry = {}

-- What library.lua leaves to be done here.

string.pack, string.unpack, string.packsize = nil, nil, nil
debug = nil

do
  local find = native.library.find_in_short
  -- Luau knows ASCII only. A number is its text here, as everywhere in the library.
  local map_case, ascii_lower, ascii_upper = native.map_case, string.lower, string.upper
  -- To look for a byte above 127 costs more than the call where the text is long.
  local function is_for_map_case(text)
    return type(text) == "string" and (#text > 128 or find(text, "[\128-\255]"))
  end
  function string.lower(text)
    if is_for_map_case(text) then
      return map_case(text, false)
    end
    return ascii_lower(text)
  end
  function string.upper(text)
    if is_for_map_case(text) then
      return map_case(text, true)
    end
    return ascii_upper(text)
  end

  local concat = table.concat
  function print(...)
    local parts = {}
    for index = 1, select("#", ...) do
      parts[index] = tostring((select(index, ...)))
    end
    native.print(concat(parts, "\t"))
  end

  local date, time, now_ms = os.date, os.time, native.now_ms
  function os.time(when)
    if when == nil then
      return floor(now_ms() / 1000)
    end
    return time(when)
  end
  function os.date(format, when)
    return date(format or "%c", when or floor(now_ms() / 1000))
  end
end

-- Errors.

local trace

local function handler(problem)
  if problem == "not enough memory" then
    native.spare_memory()
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
local env, node, version = native.env, native.node, native.version

local function finish(ok, first, ...)
  if ok then
    return first, ...
  end
  error(first, 3)
end

setmetatable(nk, {
  __index = function(module, name)
    local raw = type(name) == "string" and native.find(name)
    if not raw then
      return nil
    end
    local function bound(...)
      return finish(raw(...))
    end
    rawset(module, name, bound)
    return bound
  end,
})

local registered = { rpc = {}, before = {}, after = {}, event = {} }
local is_loading = true

local function register(kind, prefix, name, fn, id)
  if type(fn) ~= "function" then
    wrong(3, 1, name, "function expected, got " .. type(fn))
  end
  if type(id) ~= "string" or id == "" then
    wrong(3, 2, name, "expects id")
  end
  if not is_loading then
    error(name .. " can only be called while modules are loaded", 3)
  end
  registered[kind][prefix .. lower(id)] = fn
end

function nk.register_rpc(fn, id) register("rpc", "", "register_rpc", fn, id) end
function nk.register_req_before(fn, id) register("before", "", "register_req_before", fn, id) end
function nk.register_req_after(fn, id) register("after", "", "register_req_after", fn, id) end
function nk.register_rt_before(fn, id) register("before", "rt:", "register_rt_before", fn, id) end
function nk.register_rt_after(fn, id) register("after", "rt:", "register_rt_after", fn, id) end

for _, event in pairs({
  "matchmaker_matched", "tournament_end", "tournament_reset", "leaderboard_reset", "shutdown",
}) do
  local name = "register_" .. event
  nk[name] = function(fn) register("event", "", name, fn, event) end
end

function nk.register_storage_index(name)
  if is_loading then
    registered.event["storage_index:" .. tostring(name)] = error
  end
end

function nk.register_storage_index_filter(index, fn)
  register("event", "", "register_storage_index_filter", fn, "storage_index_filter:" .. tostring(index))
end

local function base_context(mode)
  return {
    env = env, execution_mode = mode, node = node, version = version,
    headers = {}, query_params = {},
  }
end

do
  local pcall, sub = pcall, string.sub
  local RETRIES_MAX = 10
  local CHANGED = "Storage write rejected - version check failed."

  function nk.storage_write_retry(ids, update, retries_max)
    local name = "storage_write_retry"
    if type(ids) ~= "table" then
      wrong(2, 1, name, "table expected, got " .. type(ids))
    elseif type(update) ~= "function" then
      wrong(2, 2, name, "function expected, got " .. type(update))
    elseif type(retries_max) ~= "number" then
      wrong(2, 3, name, "number expected, got " .. type(retries_max))
    elseif not (retries_max >= 0 and retries_max <= RETRIES_MAX) then
      wrong(2, 3, name, "max retries must be a value between 0 and 10")
    end
    if #ids == 0 then
      return {}
    end
    for _ = 0, retries_max do
      local writes = update(nk.storage_read(ids))
      if type(writes) ~= "table" then
        error("failed to write storage objects with retry: update function error: expects to return "
          .. "a valid table", 2)
      end
      local ok, acks = pcall(nk.storage_write, writes)
      if ok then
        return acks
      end
      -- Only what another one has changed meanwhile is worth another try.
      if type(acks) ~= "string" or sub(acks, -#CHANGED) ~= CHANGED then
        error(acks, 0)
      end
    end
    error("failed to write storage objects with retry: Storage write retries exhausted.", 2)
  end
end

function nk.get_context()
  return base_context(is_match and "match" or "run_once")
end

function nk.run_once(fn)
  if type(fn) ~= "function" then
    wrong(2, 1, "run_once", "expects function")
  end
  if not is_match and native.take_run_once() then
    fn(base_context("run_once"))
  end
end

-- Modules.

local loaded = { nakama = nk }
local begun = {}
native.library.add_loaded(loaded)
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
  local ok, value = pcall(chunk, name)
  if ok then
    value = keep(name, value)
  end
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

function entry.load(name)
  return outcome(xpcall(require, handler, name))
end

function entry.loaded()
  is_loading = false
  return registered.rpc, registered.before, registered.after, registered.event
end

-- What calls may change for themselves only, besides globals and libraries.
function entry.sealed()
  return { nk, package, loaded, package.preload }
end

-- RPCs and hooks.

-- Everything that Rust has to say about a call comes in one string: handing over many is slow.
-- See context.rs for its form.

local function read_pairs(packed, position, count)
  local read = {}
  local name, value
  for _ = 1, count do
    name, value, position = unpack_bytes("<s4s4", packed, position)
    read[name] = value
  end
  return read, position
end

local function read_lists(packed, position, count)
  local read = {}
  local name, value
  for _ = 1, count do
    name, value, position = unpack_bytes("<s4s4", packed, position)
    local list = read[name]
    if list then
      list[#list + 1] = value
    else
      read[name] = { value }
    end
  end
  return read, position
end

local function call_context(mode, packed, expiry, var_count, header_count, param_count)
  local context = { env = env, execution_mode = mode, node = node, version = version,
    headers = 0, query_params = 0, user_id = nil, username = nil, vars = nil,
    user_session_exp = expiry, session_id = nil, lang = nil, client_ip = nil, client_port = nil }
  local user_id, username, session_id, lang, ip, port, position =
    unpack_bytes("<s4s4s4s4s4s4", packed)
  if user_id ~= "" then
    context.user_id, context.username = user_id, username
  end
  if session_id ~= "" then
    context.session_id, context.lang = session_id, lang
  end
  if ip ~= "" then
    context.client_ip = ip
  end
  if port ~= "" then
    context.client_port = port
  end
  if var_count > 0 then
    context.vars, position = read_pairs(packed, position, var_count)
  end
  context.headers, position = read_lists(packed, position, header_count)
  context.query_params = read_lists(packed, position, param_count)
  return context
end

function entry.call(fn, first, second, mode, packed, ...)
  local context = packed and call_context(mode, packed, ...) or base_context(mode)
  if second == nil then
    return outcome(xpcall(fn, handler, context, first))
  end
  return outcome(xpcall(fn, handler, context, first, second))
end

-- Matches: this VM runs one.

local MATCH_LABEL_BYTES_MAX = 2048
local init, join_attempt, join, leave, loop, terminate, signal
local context, state

local function must(problem)
  if problem then
    error(problem, 3)
  end
end

local dispatcher = {
  broadcast_message = function(op_code, data, presences, sender, reliable)
    must(native.broadcast(op_code, data, presences, sender, reliable))
  end,
  broadcast_message_deferred = function(op_code, data, presences, sender, reliable)
    must(native.broadcast_deferred(op_code, data, presences, sender, reliable))
  end,
  match_kick = function(presences)
    must(native.kick(presences))
  end,
  match_label_update = function(label)
    must(native.label_update(label))
  end,
}

-- Nakama wants all seven callbacks; what one that is not there would do is mostly plain.
local function same(_, _, _, kept)
  return kept
end

local callback_defaults = {
  match_init = false, match_loop = false,
  match_join_attempt = function(_, _, _, kept) return kept, true end,
  match_join = same, match_leave = same, match_terminate = same, match_signal = same,
}

function entry.match_open(module, match_id)
  context = {
    env = env, execution_mode = "match", node = node, version = version,
    match_id = match_id, match_node = node,
  }
  local ok, callbacks = xpcall(require, handler, module)
  if not ok then
    return fail(callbacks)
  end
  is_loading = false
  if type(callbacks) ~= "table" then
    return false, "match module must return a table containing the match callback functions"
  end
  for name, default in pairs(callback_defaults) do
    local callback = rawget(callbacks, name)
    if callback == nil and default then
      rawset(callbacks, name, default)
    elseif type(callback) ~= "function" then
      return false, name .. " not found or not a function"
    end
  end
  init, join_attempt = callbacks.match_init, callbacks.match_join_attempt
  join, leave, loop = callbacks.match_join, callbacks.match_leave, callbacks.match_loop
  terminate, signal = callbacks.match_terminate, callbacks.match_signal
  return true
end

local function settle_init(ok, ...)
  if not ok then
    return fail((...))
  end
  -- The original looks at the values from the last to the first.
  local count = select("#", ...)
  local label = count > 0 and select(count, ...) or nil
  if type(label) ~= "string" then
    return false, "match_init returned unexpected third value, must be a label string"
  end
  if #label > MATCH_LABEL_BYTES_MAX then
    return false, "match_init returned invalid label, must be 2048 bytes or less"
  end
  local rate = count > 1 and select(count - 1, ...) or nil
  if type(rate) ~= "number" then
    return false, "match_init returned unexpected second value, must be a tick rate number"
  end
  rate = floor(rate)
  if not (rate >= 1 and rate <= 60) then
    return false, "match_init returned invalid tick rate, must be between 1 and 60"
  end
  if count < 3 then
    return false, "match_init returned unexpected first value, must be a state"
  end
  local new = (select(count - 2, ...))
  if new == nil then
    return false, "Match initial state must not be nil"
  end
  if count > 3 then
    return false,
      "match_init returned too many arguments, must be: state, tick rate number, label string"
  end
  state = new
  context.match_label, context.match_tick_rate = label, rate
  return true, rate, label
end

function entry.match_init(params)
  return settle_init(xpcall(init, handler, context, params))
end

function entry.match_label(label)
  context.match_label = label
end

-- True and whether the match goes on, or an error.
local function settle(what, ok, ...)
  if not ok then
    return fail((...))
  end
  local count = select("#", ...)
  local new = count > 0 and select(count, ...)
  if count == 0 or new == nil then
    state = nil
    return true, false
  end
  if count > 1 then
    return false, "Match " .. what .. " returned too many values, stopping match"
  end
  state = new
  return true, true
end

local function settle_attempt(ok, ...)
  if not ok then
    return fail((...))
  end
  local count = select("#", ...)
  if count == 0 then
    return false, "Match join attempt returned too few values, stopping match - expected: "
      .. "state, join result boolean, optional reject reason string"
  end
  local allow, reason = (select(count, ...)), ""
  if type(allow) == "string" then
    reason = allow
    count = count - 1
    if count == 0 then
      return false, "Match join attempt returned incorrect or too few values, stopping match - "
        .. "expected: state, join result boolean, optional reject reason string"
    end
    allow = (select(count, ...))
    if type(allow) ~= "boolean" then
      return false, "Match join attempt returned non-boolean join result, stopping match"
    end
  elseif type(allow) ~= "boolean" then
    -- One nil alone is the way to end a match in every callback.
    if count == 1 and allow == nil then
      return true, nil
    end
    return false, "Match join attempt returned non-boolean join result or non-string reject "
      .. "reason, stopping match"
  end
  count = count - 1
  local new = count > 0 and select(count, ...)
  if count == 0 or new == nil then
    return true, nil
  end
  if count > 1 then
    return false, "Match join attempt returned too many values, stopping match"
  end
  state = new
  return true, allow, reason
end

function entry.match_join_attempt(tick, user_id, session_id, username, metadata, vars, expiry, ip, port)
  local asked = {}
  for key, value in pairs(context) do
    asked[key] = value
  end
  asked.user_id, asked.username, asked.session_id = user_id, username, session_id
  asked.vars, asked.user_session_exp, asked.client_ip, asked.client_port = vars, expiry, ip, port
  local presence = {
    user_id = user_id, session_id = session_id, username = username, node = node,
  }
  return settle_attempt(
    xpcall(join_attempt, handler, asked, dispatcher, tick, state, presence, metadata))
end

-- Presences and messages come packed too, see matches.rs.

local function read_presences(packed, count)
  local list, position = {}, 1
  local user_id, session_id, reason, username
  for index = 1, count do
    user_id, session_id, reason, username, position =
      unpack_bytes("<c36c36Bs4", packed, position)
    list[index] = {
      user_id = user_id, session_id = session_id, username = username, node = node,
      reason = reason,
    }
  end
  return list
end

function entry.match_join(tick, packed, count)
  return settle("join",
    xpcall(join, handler, context, dispatcher, tick, state, read_presences(packed, count)))
end

function entry.match_leave(tick, packed, count)
  return settle("leave",
    xpcall(leave, handler, context, dispatcher, tick, state, read_presences(packed, count)))
end

local function read_messages(packed, count)
  local list, position = {}, 1
  local user_id, session_id, op_code, time_ms, reliable, username, data
  for index = 1, count do
    user_id, session_id, op_code, time_ms, reliable, username, data, position =
      unpack_bytes("<c36c36ddBs4s4", packed, position)
    list[index] = {
      sender = { user_id = user_id, session_id = session_id, username = username, node = node },
      op_code = op_code, data = data, reliable = reliable == 1, receive_time_ms = time_ms,
    }
  end
  return list
end

function entry.match_loop(tick, packed, count)
  return settle("loop", xpcall(loop, handler, context, dispatcher, tick, state,
    packed and read_messages(packed, count) or {}))
end

function entry.match_terminate(tick, grace_s)
  return settle("terminate",
    xpcall(terminate, handler, context, dispatcher, tick, state, grace_s))
end

local function settle_signal(ok, ...)
  if not ok then
    return fail((...))
  end
  local count = select("#", ...)
  local new, answer = ...
  if count > 2 then
    return false, "Match signal returned too many values, stopping match"
  end
  if answer ~= nil and type(answer) ~= "string" then
    return false, "Match signal returned non-string result, stopping match"
  end
  if new == nil then
    state = nil
    return true, nil
  end
  state = new
  return true, answer or ""
end

function entry.match_signal(tick, data)
  return settle_signal(xpcall(signal, handler, context, dispatcher, tick, state, data))
end

return entry
