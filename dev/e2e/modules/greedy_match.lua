-- A match that does to its room what `params.harm` says, once, at its third tick; one that makes another like
-- itself in each tick (`params.breeds`); and one that does nothing and tells by signal how long its ticks were apart
-- at most, in milliseconds.

local nk = require("nakama")

local HARM = {
  hash = function()
    return select(2, pcall(function()
      for _ = 1, 3 do
        nk.bcrypt_hash("password")
      end
    end))
  end,
  broadcast = function(dispatcher)
    local payload = ("x"):rep(1000000)
    return select(2, pcall(function()
      for _ = 1, 600 do
        dispatcher.broadcast_message(1, payload)
      end
    end))
  end,
  decode = function()
    return #nk.json_decode("[" .. ("1,"):rep(4000000) .. "1]")
  end,
}

local M = {}

function M.match_init(_, params)
  return { harm = params.harm, breeds = params.breeds, last_ms = nk.time(), worst_ms = 0, ticks = 0 }, 20, ""
end

function M.match_join_attempt(_, _, _, state)
  return state, true
end

local function same(_, _, _, state)
  return state
end

M.match_join, M.match_leave, M.match_terminate = same, same, same

function M.match_loop(_, dispatcher, _, state)
  local now_ms = nk.time()
  state.ticks = state.ticks + 1
  if state.ticks > 1 then
    state.worst_ms = math.max(state.worst_ms, now_ms - state.last_ms)
  end
  state.last_ms = now_ms
  if state.ticks == 3 and state.harm then
    state.said = HARM[state.harm](dispatcher)
  end
  if state.breeds then
    local _, why = pcall(nk.match_create, "greedy_match", { breeds = true })
    state.said = why
  end
  return state
end

function M.match_signal(_, _, _, state)
  return state, nk.json_encode({ said = state.said, worst_ms = state.worst_ms, ticks = state.ticks })
end

return M
