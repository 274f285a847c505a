--[[
A server-authoritative match whose every behaviour is asked for by an op code, so that each test can
drive exactly what it looks at. Runs unmodified on Nakama and on throng.
State holds the parameters of its creation and the presences, by session id.
--]]
local nk = require("nakama")

local OP_ECHO = 1 -- data back to the sender
local OP_BROADCAST = 2 -- data to all, in the sender's name
local OP_LABEL = 3 -- data becomes the label
local OP_KICK = 4 -- data is the session id to remove
local OP_ERROR = 5 -- the callback raises an error
local OP_END = 6 -- the match ends quietly
local OP_ANONYMOUS = 7 -- op code 0, no data, from the server, to all
local OP_DEFERRED = 8 -- data to all, sent at the end of the callback
local OP_DESCRIBE = 9 -- what the script sees of the message and its context, as JSON
local OP_OTHERS = 10 -- data to all but the sender
local OP_NOBODY = 11 -- data to an empty list of presences
local OP_BINARY = 12 -- all 256 byte values back to the sender
local OP_JOINED = 50 -- sent by match_join to whoever came in, data is the tick
local OP_LEFT = 51 -- sent by match_leave to the others, data is who left
local OP_TERMINATE = 99 -- sent by match_terminate, data is the grace in seconds
local OP_SPIN = 200 -- never returns
local OP_HOARD = 201 -- takes memory without end

local function match_init(_context, params)
  local state = { params = params, presences = {}, present_count = 0, ticks_empty = 0 }
  return state, params.tick_rate or 20, params.label or ""
end

local function match_join_attempt(_context, _dispatcher, _tick, state, presence, metadata)
  if metadata and metadata.password == "wrong" then
    return state, false, "wrong password, " .. presence.username
  end
  if metadata and metadata.password == "silent" then
    return state, false
  end
  if state.params.max_size and state.present_count >= state.params.max_size then
    return state, false, "match is full"
  end
  return state, true
end

local function match_join(_context, dispatcher, tick, state, presences)
  for _, presence in ipairs(presences) do
    state.presences[presence.session_id] = presence
    state.present_count = state.present_count + 1
  end
  if state.params.greet then
    dispatcher.broadcast_message(OP_JOINED, tostring(tick), presences)
  end
  return state
end

local function match_leave(_context, dispatcher, _tick, state, presences)
  for _, presence in ipairs(presences) do
    state.presences[presence.session_id] = nil
    state.present_count = state.present_count - 1
    dispatcher.broadcast_message(OP_LEFT, presence.user_id)
  end
  return state
end

local function spin()
  local turns = 0
  while true do
    turns = turns + 1
  end
end

local function hoard()
  local held = {}
  while true do
    held[#held + 1] = { #held }
  end
end

local on_op = {
  [OP_ECHO] = function(_context, dispatcher, _state, m)
    dispatcher.broadcast_message(OP_ECHO, m.data, { m.sender })
  end,
  [OP_BROADCAST] = function(_context, dispatcher, _state, m)
    dispatcher.broadcast_message(OP_BROADCAST, m.data, nil, m.sender)
  end,
  [OP_LABEL] = function(_context, dispatcher, _state, m)
    dispatcher.match_label_update(m.data)
    dispatcher.broadcast_message(OP_LABEL, m.data)
  end,
  [OP_KICK] = function(_context, dispatcher, state, m)
    dispatcher.match_kick({ state.presences[m.data] })
  end,
  [OP_ERROR] = function()
    error("asked to fail")
  end,
  [OP_ANONYMOUS] = function(_context, dispatcher)
    dispatcher.broadcast_message(0, nil)
  end,
  [OP_DEFERRED] = function(_context, dispatcher, _state, m)
    dispatcher.broadcast_message_deferred(OP_DEFERRED, m.data)
    dispatcher.broadcast_message(OP_BROADCAST, "now")
  end,
  [OP_DESCRIBE] = function(context, dispatcher, _state, m)
    local seen = nk.json_encode({
      op_code = m.op_code,
      data_type = type(m.data),
      sender = m.sender,
      reliable = m.reliable,
      received_ms = m.receive_time_ms,
      match_id = context.match_id,
      match_node = context.match_node,
      match_label = context.match_label,
      match_tick_rate = context.match_tick_rate,
      execution_mode = context.execution_mode,
    })
    dispatcher.broadcast_message(OP_DESCRIBE, seen, { m.sender })
  end,
  [OP_OTHERS] = function(_context, dispatcher, state, m)
    local others = {}
    for session_id, presence in pairs(state.presences) do
      if session_id ~= m.sender.session_id then
        others[#others + 1] = presence
      end
    end
    dispatcher.broadcast_message(OP_OTHERS, m.data, others, m.sender)
  end,
  [OP_NOBODY] = function(_context, dispatcher, _state, m)
    dispatcher.broadcast_message(OP_NOBODY, m.data, {})
  end,
  [OP_BINARY] = function(_context, dispatcher, _state, m)
    local bytes = ""
    for b = 0, 255 do
      bytes = bytes .. string.char(b)
    end
    dispatcher.broadcast_message(OP_BINARY, bytes, { m.sender })
  end,
  [OP_SPIN] = spin,
  [OP_HOARD] = hoard,
}

local function match_loop(context, dispatcher, tick, state, messages)
  for _, m in ipairs(messages) do
    if m.op_code == OP_END then
      return nil
    end
    local run = on_op[m.op_code]
    if run then
      run(context, dispatcher, state, m)
    end
  end
  if state.present_count > 0 then
    state.ticks_empty = 0
  else
    state.ticks_empty = state.ticks_empty + 1
  end
  -- Half a minute without anybody: gone, so that a long run of tests does not pile up matches.
  if state.ticks_empty > 30 * (state.params.tick_rate or 20) then
    return nil
  end
  return state
end

local function match_terminate(_context, dispatcher, _tick, state, grace_seconds)
  dispatcher.broadcast_message(OP_TERMINATE, tostring(grace_seconds))
  return state
end

local function match_signal(_context, dispatcher, tick, state, data)
  dispatcher.broadcast_message(OP_BROADCAST, "signal " .. data)
  return state, "heard " .. data .. " with " .. state.present_count .. " present"
end

return {
  match_init = match_init,
  match_join_attempt = match_join_attempt,
  match_join = match_join,
  match_leave = match_leave,
  match_loop = match_loop,
  match_terminate = match_terminate,
  match_signal = match_signal,
}
