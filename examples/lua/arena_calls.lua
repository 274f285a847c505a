-- A game in Lua for throng: RPC functions, storage, and a hook before a call; its match is in arena.lua.

local nk = require("nakama")

local PLAYERS_MAX = 10
local NAME_LETTERS_MAX = 20

-- gRPC codes, which clients of all languages know.
local INVALID_ARGUMENT, FAILED_PRECONDITION = 3, 9

-- Answers what the client sent, decoded and encoded again, with who sent it.
local function echo(context, payload)
  local is_json, input = pcall(nk.json_decode, payload)
  if not is_json then
    error({ "the payload is not JSON", INVALID_ARGUMENT })
  end
  return nk.json_encode({ echo = input, user = context.user_id })
end

-- Writes what the client sent to storage, and reads it again.
local function store(context, payload)
  local id = { collection = "arena", key = "k", user_id = context.user_id }
  local object = { value = nk.json_decode(payload), permission_read = 1 }
  for name, part in pairs(id) do
    object[name] = part
  end
  local written = nk.storage_write({ object })[1]
  local read = nk.storage_read({ id })[1]
  return nk.json_encode({ same = written.version == read.version, value = read.value })
end

local function fail(context, payload)
  error({ "not today", FAILED_PRECONDITION })
end

-- Never ends: the server stops it.
local function spin()
  while true do end
end

-- The side of a maze of SIDE × SIDE cells. In every other row there is a wall with one gap, at its right or left end
-- in turns, so that the only way from the first corner to the goal leads through every cell.
local SIDE = 63

local function is_wall(x, y)
  local gap = y % 4 == 1 and SIDE - 1 or 0
  return y % 2 == 1 and x ~= gap
end

local NEIGHBOURS = { { 1, 0 }, { 0, 1 }, { -1, 0 }, { 0, -1 } }

-- Finds the way through the maze, breadth first: what costs time in many games.
local function path(context, payload)
  local goal = SIDE * (SIDE - 1)
  local steps, queue, head = { [0] = 0 }, { 0 }, 1
  while queue[head] ~= goal do
    local cell = queue[head]
    if not cell then
      error({ "there is no way", FAILED_PRECONDITION })
    end
    head = head + 1
    local x, y = cell % SIDE, math.floor(cell / SIDE)
    for _, by in ipairs(NEIGHBOURS) do
      local to_x, to_y = x + by[1], y + by[2]
      local to = to_y * SIDE + to_x
      local is_inside = to_x >= 0 and to_x < SIDE and to_y >= 0 and to_y < SIDE
      if is_inside and not steps[to] and not is_wall(to_x, to_y) then
        steps[to] = steps[cell] + 1
        queue[#queue + 1] = to
      end
    end
  end
  return nk.json_encode({ seen = #queue, steps = steps[goal] })
end

-- A new match; {"match_id": "…"}.
local function new_arena(context, payload)
  return nk.json_encode({ match_id = nk.match_create("arena", { level = 3 }) })
end

-- A match with a free seat, or a new one. Two players may be told of the same seat: the second one is refused when
-- joining, and asks again.
local function find_arena(context, payload)
  local found = nk.match_list(1, true, nil, nil, PLAYERS_MAX - 1, "+label.game:arena")[1]
  if not found then
    return new_arena(context, payload)
  end
  return nk.json_encode({ match_id = found.match_id })
end

-- Letters of a text in UTF-8: of each one byte is none that continues another.
local function letter_count(text)
  local _, count = text:gsub("[^\128-\191]", "")
  return count
end

-- Refuses long names, and writes the others in capitals.
local function short_names(context, request)
  local name = request.display_name or ""
  if letter_count(name) > NAME_LETTERS_MAX then
    error({ "name too long", INVALID_ARGUMENT })
  end
  request.display_name = name:upper()
  return request
end

nk.register_rpc(echo, "echo")
nk.register_rpc(store, "store")
nk.register_rpc(fail, "fail")
nk.register_rpc(spin, "spin")
nk.register_rpc(path, "path")
nk.register_rpc(new_arena, "arena")
nk.register_rpc(find_arena, "arena_find")
nk.register_req_before(short_names, "UpdateAccount")
