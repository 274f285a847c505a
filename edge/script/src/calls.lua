-- The prelude's part for calls, under the name [throng]: what registers them, and how RPCs and hooks
-- run. Runs at the start of a VM for calls, and in a match when a script asks for one of the functions:
-- then in the middle of a call, so nothing is taken from the globals.

local native, nk, entry, outcome, handler, wrong, is_match, loading_ends, is_loading = ...

local error, pairs, pcall, tostring = native.error, native.pairs, native.pcall, native.tostring
local type, xpcall, lower, sub = native.type, native.xpcall, native.lower, native.sub
local env, node, version, yield = native.env, native.node, native.version, native.yield

local registered = { rpc = {}, before = {}, after = {}, event = {} }
-- What was registered again: { kind, id, the function before, the function now }.
local again = {}

local function register(kind, prefix, name, fn, id)
  if type(fn) ~= "function" then
    wrong(3, 1, name, "function expected, got " .. type(fn))
  end
  if type(id) ~= "string" or id == "" then
    wrong(3, 2, name, "expects id")
  end
  if not is_loading() then
    error(name .. " can only be called while modules are loaded", 3)
  end
  local key = prefix .. lower(id)
  local before = registered[kind][key]
  if before and before ~= fn then
    again[#again + 1] = { kind, key, before, fn }
  end
  registered[kind][key] = fn
end

function nk.register_rpc(fn, id) register("rpc", "", "register_rpc", fn, id) end
function nk.register_req_before(fn, id) register("before", "", "register_req_before", fn, id) end
function nk.register_req_after(fn, id) register("after", "", "register_req_after", fn, id) end
function nk.register_rt_before(fn, id) register("before", "rt:", "register_rt_before", fn, id) end
function nk.register_rt_after(fn, id) register("after", "rt:", "register_rt_after", fn, id) end

for _, event in pairs({
  "matchmaker_matched", "tournament_end", "tournament_reset", "leaderboard_reset", "shutdown",
  "event", "event_session_start", "event_session_end", "zone_spawn", "zone_hit", "zone_score",
}) do
  local name = "register_" .. event
  nk[name] = function(fn) register("event", "", name, fn, event) end
end

function nk.register_storage_index(name)
  if is_loading() then
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

function entry.loaded()
  loading_ends()
  return registered.rpc, registered.before, registered.after, registered.event, again, env
end

-- RPCs and hooks.

local function call(fn, context, first, second)
  if second == nil then
    return outcome(xpcall(fn, handler, context, first))
  end
  return outcome(xpcall(fn, handler, context, first, second))
end

-- What runs in a coroutine: one call after the other. It yields what came of each, true or false first,
-- and is resumed with the next one; in the middle of a call it yields nothing, and is resumed with what
-- the function that asked returns.
function entry.serve(fn, context, first, second)
  local function run()
    local a, b, c = context, first, second
    -- Not kept until the next call.
    context, first, second = nil, nil, nil
    return call(fn, a, b, c)
  end
  while true do
    fn, context, first, second = yield(run())
  end
end
