-- The prelude's part for matches, under the name [throng]: this VM runs one.

local native, entry, fail, handler, require, loading_ends = ...

local error, floor, pairs, rawget, rawset = error, math.floor, pairs, rawget, rawset
local select, type, xpcall, unpack_bytes = select, type, xpcall, native.unpack
local env, node, version = native.env, native.node, native.version

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
  loading_ends()
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
  -- Nakama looks at the values from the last to the first.
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
