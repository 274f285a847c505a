-- The match of the benchmark: operation code 1 comes back to its sender, 2 goes to everybody.
-- At most 10 players unless the RPC of bench.lua says otherwise, 10 ticks a second; a match that
-- stays empty ends.

local nk = require("nakama")

local TICK_RATE_HZ = 10
local EMPTY_TICKS_MAX = 10 * TICK_RATE_HZ
local OP_ECHO, OP_BROADCAST = 1, 2

local M = {}

function M.match_init(context, params)
  local state = {
    players_max = params and params.players_max or 10,
    player_count = 0,
    empty_ticks = 0,
  }
  -- One word, so that a query finds it whole on every server.
  local mode = string.format("bench%d", state.players_max)
  return state, TICK_RATE_HZ, nk.json_encode({ mode = mode })
end

function M.match_join_attempt(context, dispatcher, tick, state, presence, metadata)
  if state.player_count >= state.players_max then
    return state, false, "match full"
  end
  return state, true
end

function M.match_join(context, dispatcher, tick, state, presences)
  state.player_count = state.player_count + #presences
  return state
end

function M.match_leave(context, dispatcher, tick, state, presences)
  state.player_count = state.player_count - #presences
  return state
end

function M.match_loop(context, dispatcher, tick, state, messages)
  for _, message in ipairs(messages) do
    if message.op_code == OP_ECHO then
      dispatcher.broadcast_message(OP_ECHO, message.data, { message.sender })
    elseif message.op_code == OP_BROADCAST then
      dispatcher.broadcast_message(OP_BROADCAST, message.data)
    end
  end

  if state.player_count > 0 then
    state.empty_ticks = 0
  else
    state.empty_ticks = state.empty_ticks + 1
    if state.empty_ticks >= EMPTY_TICKS_MAX then
      return nil
    end
  end
  return state
end

function M.match_terminate(context, dispatcher, tick, state, grace_seconds)
  return state
end

function M.match_signal(context, dispatcher, tick, state, data)
  return state, data
end

return M
