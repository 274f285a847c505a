-- The match of a game in Lua for throng, whose RPC functions are in arena_calls.lua: up to ten players. The same game is
-- written in JavaScript, Go and Rust beside this folder.
--
--   cp examples/lua/*.lua data/modules/
--
-- A file whose name is a match's name returns the match's seven functions. Every match runs this file in a machine of
-- its own, and with it what it requires: what only calls need stands elsewhere, so that a match is small.
--
-- A client's way into a match: call the RPC "arena_find", join {"match_id": "…"} over the socket, listen for WELCOME,
-- and send TO_SENDER or TO_ALL, which come back to oneself or to everybody.

local nk = require("nakama")

-- Operation codes: what a message means. The numbers are the game's own choice.
local TO_SENDER, TO_ALL, WELCOME = 1, 2, 50

local TICK_RATE_HZ = 10
local PLAYERS_MAX = 10
-- A match that nobody is in ends after a minute.
local EMPTY_TICKS_MAX = 60 * TICK_RATE_HZ

local M = {}

-- Called once: the first state, ticks a second, and the label that others find the match by.
function M.match_init(context, params)
  local state = { level = params.level, present = 0, empty_ticks = 0 }
  return state, TICK_RATE_HZ, '{"game":"arena"}'
end

function M.match_join_attempt(context, dispatcher, tick, state, presence, metadata)
  if metadata.ticket == "forged" then
    return state, false, "forged ticket"
  end
  return state, state.present < PLAYERS_MAX, "match full"
end

function M.match_join(context, dispatcher, tick, state, presences)
  state.present = state.present + #presences
  local welcome = nk.json_encode({ joined = #presences, level = state.level })
  dispatcher.broadcast_message(WELCOME, welcome)
  return state
end

function M.match_leave(context, dispatcher, tick, state, presences)
  state.present = state.present - #presences
  return state
end

-- Called at every tick, with the messages that came since the last one; nil ends the match.
function M.match_loop(context, dispatcher, tick, state, messages)
  for _, message in ipairs(messages) do
    if message.op_code == TO_SENDER then
      dispatcher.broadcast_message(TO_SENDER, message.data, { message.sender }, message.sender)
    elseif message.op_code == TO_ALL then
      dispatcher.broadcast_message(TO_ALL, message.data, nil, message.sender)
    else
      -- Never ends: the server stops it, and this match alone.
      while true do end
    end
  end
  state.empty_ticks = state.present == 0 and state.empty_ticks + 1 or 0
  return state.empty_ticks < EMPTY_TICKS_MAX and state or nil
end

function M.match_terminate(context, dispatcher, tick, state, grace_seconds)
  return state
end

function M.match_signal(context, dispatcher, tick, state, data)
  return state, "heard " .. data
end

return M
