-- A match that tells its players every tick, and, if it is told to, writes an object to storage every tick: where it
-- can wait for that, or where it cannot. lateness.test.mjs looks at what its neighbours notice.
local nk = require("nakama")

local TICK_RATE_HZ = 20

local M = {}

local function write(context)
  nk.storage_write({ { collection = "lateness", key = context.match_id, value = { at = nk.time() } } })
end

function M.match_init()
  return { mode = "quiet", written = 0 }, TICK_RATE_HZ, ""
end

function M.match_join_attempt(_, _, _, state)
  return state, true
end

local function go_on(_, _, _, state)
  return state
end

function M.match_loop(context, dispatcher, tick, state)
  dispatcher.broadcast_message(1, tostring(tick))
  if state.mode == "waits" then
    write(context)
    state.written = state.written + 1
  elseif state.mode == "keeps" then
    -- Nothing can wait in here, so that the room does.
    table.sort({ 1, 2 }, function(a, b)
      write(context)
      state.written = state.written + 1
      return a < b
    end)
  end
  return state
end

-- The next mode; the answer is how much was written in the one before.
function M.match_signal(_, _, _, state, mode)
  local written = tostring(state.written)
  state.mode, state.written = mode, 0
  return state, written
end

M.match_join, M.match_leave, M.match_terminate = go_on, go_on, go_on

nk.register_rpc(function(_, payload)
  local module = nk.json_decode(payload).module or "lateness_match"
  return nk.json_encode({ match_id = nk.match_create(module, {}) })
end, "lateness_create")

nk.register_rpc(function(_, payload)
  local wish = nk.json_decode(payload)
  return nk.json_encode({ written = nk.match_signal(wish.match_id, wish.mode) })
end, "lateness_mode")

return M
