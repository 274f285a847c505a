-- What a match does when players come and go, when it is signalled and when it ends, under the name
-- [throng]. May be loaded in the middle of a match, when scripts may have put their own in the globals'
-- places, so nothing is taken from there.

local native, entry, fail, callbacks, context, settle, call, keep = ...

local pairs, select, type = native.pairs, native.select, native.type
local unpack_bytes, node = native.unpack, native.node
local join_attempt, signal = callbacks.match_join_attempt, callbacks.match_signal
local join, leave, terminate = callbacks.match_join, callbacks.match_leave, callbacks.match_terminate

local function settle_attempt(_, ok, ...)
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
  keep(new)
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
  return call(settle_attempt, nil, join_attempt, asked, tick, presence, metadata)
end

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
  return call(settle, "join", join, context, tick, read_presences(packed, count))
end

function entry.match_leave(tick, packed, count)
  return call(settle, "leave", leave, context, tick, read_presences(packed, count))
end

function entry.match_terminate(tick, grace_s)
  return call(settle, "terminate", terminate, context, tick, grace_s)
end

local function settle_signal(_, ok, ...)
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
    keep(nil)
    return true, nil
  end
  keep(new)
  return true, answer or ""
end

function entry.match_signal(tick, data)
  return call(settle_signal, nil, signal, context, tick, data)
end
