-- A match that does in its callbacks what it was told to: it signals a match, makes one, or asks a server. What
-- came of it is its answer to the signal {seen = true}, and a message to its players.
local nk = require("nakama")
local M = {}

local function act(wish)
  local ok, result = pcall(function()
    if wish.signal then
      return nk.match_signal(wish.signal, nk.json_encode(wish.data or { say = "hello" }))
    elseif wish.create then
      return nk.match_create("waiting_match", {})
    end
    local _, _, content = nk.http_request(wish.ask, "get", {}, nil, wish.timeout_ms)
    return content
  end)
  return tostring(result)
end

-- Does what was told for a callback, once.
local function callback(name, state, dispatcher)
  local wish = state.wishes[name]
  if not wish then
    return
  end
  state.wishes[name] = nil
  state.seen = act(wish)
  if dispatcher then
    dispatcher.broadcast_message(1, state.seen)
  end
end

function M.match_init(_, wishes)
  local state = { wishes = wishes, seen = "" }
  callback("init", state)
  return state, 10, ""
end

function M.match_join_attempt(_, dispatcher, _, state)
  callback("join_attempt", state, dispatcher)
  return state, true
end

function M.match_join(_, dispatcher, _, state)
  callback("join", state, dispatcher)
  return state
end

function M.match_leave(_, dispatcher, _, state)
  callback("leave", state, dispatcher)
  return state
end

function M.match_loop(_, dispatcher, _, state)
  callback("loop", state, dispatcher)
  return state
end

function M.match_signal(_, dispatcher, _, state, data)
  local told = nk.json_decode(data)
  if told.seen then
    return state, state.seen
  elseif told.say then
    return state, "says " .. told.say
  elseif told.act then
    return state, act(told.act)
  end
  state.wishes = told
  return state, ""
end

function M.match_terminate(_, dispatcher, _, state)
  callback("terminate", state, dispatcher)
  nk.logger_info("terminated after: " .. state.seen)
  return state
end

return M
