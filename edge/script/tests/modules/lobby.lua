-- A lobby match: presences by session, a label that changes, messages by opcode.
local nk = require("nakama")
local config = require("game.config")
local M = {}

local OpCodes = { READY = 1, CHAT = 2, START = 3, KICK = 4; }

local function count(t) local n = 0; for _ in pairs(t) do n = n + 1 end; return n end

local handlers = {
  [OpCodes.READY] = function(state, message) state.ready[message.sender.session_id] = true end,
  [OpCodes.CHAT] = function(state, message, dispatcher)
    dispatcher.broadcast_message(OpCodes.CHAT, message.data, nil, message.sender)
  end,
}

function M.match_init(context, setupstate)
  local state = { presences = {}, ready = {}, started = false, empty_ticks = 0, params = setupstate or {} }
  return state, config.tick_rate, nk.json_encode({ open = 1, mode = state.params.mode or "casual" })
end

function M.match_join_attempt(context, dispatcher, tick, state, presence, metadata)
  if state.started then return state, false, "already started" end
  if count(state.presences) >= config.max_players then return state, false, "full" end
  return state, true
end

function M.match_join(context, dispatcher, tick, state, presences)
  for _, presence in ipairs(presences) do state.presences[presence.session_id] = presence end
  dispatcher.match_label_update(nk.json_encode({ open = count(state.presences) < config.max_players and 1 or 0 }))
  return state
end

function M.match_leave(context, dispatcher, tick, state, presences)
  for _, presence in ipairs(presences) do
    state.presences[presence.session_id] = nil
    state.ready[presence.session_id] = nil
  end
  return state
end

function M.match_loop(context, dispatcher, tick, state, messages)
  if count(state.presences) == 0 then
    state.empty_ticks = state.empty_ticks + 1
    if state.empty_ticks > config.max_empty_ticks then return nil end
  else
    state.empty_ticks = 0
  end
  for _, message in ipairs(messages) do
    if message.op_code == OpCodes.KICK then goto continue end
    local handler = handlers[message.op_code]
    if not handler then
      nk.logger_warn(string.format("unknown op code %d from %s", message.op_code, message.sender.username))
      goto continue
    end
    handler(state, message, dispatcher)
    ::continue::
  end
  if not state.started and count(state.presences) > 0 and count(state.ready) == count(state.presences) then
    state.started = true
    dispatcher.broadcast_message(OpCodes.START, nk.json_encode({ at = tick }))
  end
  return state
end

function M.match_terminate(context, dispatcher, tick, state, grace_seconds) return state end

nk.register_rpc(function(context, payload)
  local id = nk.match_create("lobby", { mode = "ranked", seats = { [1] = "a", [3] = "c" } })
  local found = nk.match_list(10, true, nil, 0, 4)
  assert(type(id) == "string" and type(found) == "table")
  return "ok"
end, "lobby")

return M
