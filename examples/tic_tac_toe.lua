-- Tic-tac-toe, decided by the server: a small game to copy from.
--
-- A file in this folder that returns a table with the seven functions below can run matches. Its
-- name is the match's name: `nk.match_create("tic_tac_toe", {})`. Every match has its own Lua
-- machine, so nothing here is shared between matches; what a match knows is in its `state`.
--
-- A client's way in:
--   1. call the RPC "tic_tac_toe_find"; the answer is {"match_id": "…"}
--   2. join that match over the socket
--   3. send operation code MOVE with {"cell": 1 … 9} when it is your turn
--   4. listen: START, UPDATE and DONE carry the board; REJECTED says what was wrong

local nk = require("nakama")

-- Operation codes: what a message means. The numbers are this game's own choice.
local START, UPDATE, DONE, MOVE, REJECTED = 1, 2, 3, 4, 5

local TICK_RATE_HZ = 5
local TURN_SECONDS = 20
local EMPTY_SECONDS_MAX = 10

local LINES = {
  { 1, 2, 3 }, { 4, 5, 6 }, { 7, 8, 9 }, -- rows
  { 1, 4, 7 }, { 2, 5, 8 }, { 3, 6, 9 }, -- columns
  { 1, 5, 9 }, { 3, 5, 7 },              -- diagonals
}

local M = {}

-- The label is what others see of a match when they list matches. Keep it short, and JSON, so that
-- queries such as "+label.open:1" can look inside.
local function label_of(state)
  return nk.json_encode({ game = "tic_tac_toe", open = state.playing and 0 or 1 })
end

-- What all players are told: the board as a list of nine marks, and whose turn it is.
local function board_of(state)
  local board = {}
  for cell = 1, 9 do
    board[cell] = state.board[cell] or ""
  end
  return nk.json_encode({ board = board, turn = state.turn, winner = state.winner })
end

local function winner_of(board)
  for _, line in ipairs(LINES) do
    local mark = board[line[1]]
    if mark and mark == board[line[2]] and mark == board[line[3]] then
      return mark
    end
  end
  return nil
end

local function other(mark)
  return mark == "X" and "O" or "X"
end

-- Called once. Returns the first state, ticks a second (1 to 60), and the label.
function M.match_init(context, params)
  local state = {
    board = {},        -- cell number → "X" or "O"
    marks = {},        -- user id → "X" or "O"
    presences = {},    -- user id → presence, of those who are here
    moves = 0,
    turn = "X",
    playing = false,
    ticks_left = 0,    -- until the turn is lost
    empty_ticks = 0,
  }
  return state, TICK_RATE_HZ, label_of(state)
end

-- May this user join? Return the state, true or false, and for false a reason.
function M.match_join_attempt(context, dispatcher, tick, state, presence, metadata)
  if state.marks[presence.user_id] then
    return state, true -- a player who comes back
  end
  if state.playing or state.winner then
    return state, false, "match full"
  end
  return state, true
end

function M.match_join(context, dispatcher, tick, state, presences)
  for _, presence in ipairs(presences) do
    state.presences[presence.user_id] = presence
    if not state.marks[presence.user_id] then
      local is_first = next(state.marks) == nil
      state.marks[presence.user_id] = is_first and "X" or "O"
      if not is_first then
        state.playing = true
        state.ticks_left = TURN_SECONDS * TICK_RATE_HZ
        dispatcher.match_label_update(label_of(state))
        dispatcher.broadcast_message(START, board_of(state))
      end
    elseif state.playing then
      -- Who comes back is told how the game stands; nobody else is.
      dispatcher.broadcast_message(UPDATE, board_of(state), { presence })
    end
  end
  return state
end

function M.match_leave(context, dispatcher, tick, state, presences)
  for _, presence in ipairs(presences) do
    state.presences[presence.user_id] = nil
  end
  return state
end

local function finish(dispatcher, state, winner)
  state.playing = false
  state.winner = winner
  dispatcher.broadcast_message(DONE, board_of(state))
end

-- One move of one player; returns what is wrong with it, or nil. Never trust a client: decode with
-- pcall, and check everything.
local function play(dispatcher, state, message)
  local is_json, move = pcall(nk.json_decode, message.data)
  local cell = is_json and type(move) == "table" and move.cell
  local mark = state.marks[message.sender.user_id]
  if not state.playing then
    return "the game is not running"
  elseif mark ~= state.turn then
    return "it is not your turn"
  elseif type(cell) ~= "number" or cell < 1 or cell > 9 or cell % 1 ~= 0 then
    return "cell must be a whole number from 1 to 9"
  elseif state.board[cell] then
    return "this cell is taken"
  end

  state.board[cell] = mark
  state.moves = state.moves + 1
  state.turn = other(mark)
  state.ticks_left = TURN_SECONDS * TICK_RATE_HZ
  if winner_of(state.board) then
    finish(dispatcher, state, mark)
  elseif state.moves == 9 then
    finish(dispatcher, state, "draw")
  else
    dispatcher.broadcast_message(UPDATE, board_of(state))
  end
  return nil
end

-- Called TICK_RATE_HZ times a second with all messages that arrived since the last time. Returning
-- nil ends the match.
function M.match_loop(context, dispatcher, tick, state, messages)
  for _, message in ipairs(messages) do
    if message.op_code == MOVE then
      local problem = play(dispatcher, state, message)
      if problem then
        local answer = nk.json_encode({ reason = problem })
        dispatcher.broadcast_message(REJECTED, answer, { message.sender })
      end
    end
  end

  if state.playing then
    state.ticks_left = state.ticks_left - 1
    if state.ticks_left <= 0 then
      finish(dispatcher, state, other(state.turn)) -- too slow: the other one wins
    end
  end

  if next(state.presences) ~= nil then
    state.empty_ticks = 0
  else
    state.empty_ticks = state.empty_ticks + 1
    if state.empty_ticks >= EMPTY_SECONDS_MAX * TICK_RATE_HZ then
      return nil
    end
  end
  return state
end

-- The server is stopping and waits for grace_seconds.
function M.match_terminate(context, dispatcher, tick, state, grace_seconds)
  return state
end

-- Another script called nk.match_signal(match_id, data) and waits for the text returned here.
function M.match_signal(context, dispatcher, tick, state, data)
  return state, board_of(state)
end

-- Top-level code runs once when the server starts. Here it registers the RPC that finds somebody
-- to play with.
nk.register_rpc(function(context, payload)
  -- limit, authoritative, label, least size, greatest size, query; Nakama wants all six, even if nil.
  local found = nk.match_list(1, true, nil, nil, 1, "+label.game:tic_tac_toe +label.open:1")
  local match_id
  if #found > 0 then
    match_id = found[1].match_id
  else
    match_id = nk.match_create("tic_tac_toe", {})
  end
  return nk.json_encode({ match_id = match_id })
end, "tic_tac_toe_find")

return M
