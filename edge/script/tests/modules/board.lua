-- A board with holes that is sent as JSON.
local nk = require("nakama")
local LINES = { { 1, 2, 3 }, { 4, 5, 6 }, { 7, 8, 9 }, { 1, 4, 7 }, { 2, 5, 8 }, { 3, 6, 9 }, { 1, 5, 9 }, { 3, 5, 7 } }
local function winner(board)
  for _, line in ipairs(LINES) do
    local a, b, c = unpack(line)
    if not board[a] then goto continue end
    if board[a] == board[b] and board[b] == board[c] then return board[a] end
    ::continue::
  end
  for i = 1, 9 do if board[i] == nil then return nil end end
  return "tie"
end
nk.register_rpc(function()
  local board = {}
  board[5], board[1], board[9] = "X", "O", "X"
  assert(nk.json_encode({ board = board, mark = "X" }) == '{"board":["O",null,null,null,"X",null,null,null,"X"],"mark":"X"}')
  assert(winner(board) == nil)
  board[3], board[7] = "O", "O"
  board[2] = "O"
  assert(winner(board) == "O")
  return "ok"
end, "board")
