-- Guess a number: a small game that keeps its scores. docs/lua/guide.md builds it step by step.
--
-- Two RPCs: "guess" takes {"number": 5} and answers {"answer": "higher"}, "lower" or "right", the
-- last with "tries"; "best" lists who needed the fewest tries.

local nk = require("nakama")

local SECRET_MAX = 10
local INVALID_ARGUMENT, UNAUTHENTICATED = 3, 16

-- The game that a player is in lies in an object of the player's own. Permission 0 keeps clients
-- from reading the secret, and from writing it.
local function game_id(context)
  return { collection = "guess", key = "game", user_id = context.user_id }
end

local function load_game(context)
  local found = nk.storage_read({ game_id(context) })
  if found[1] then
    return found[1].value
  end
  return { secret = math.random(SECRET_MAX), tries = 0 }
end

local function save_game(context, game)
  local object = game_id(context)
  object.value, object.permission_read, object.permission_write = game, 0, 0
  nk.storage_write({ object })
end

-- Keeps the score if it is the player's best; permission 2 lets everybody read it.
local function keep_score(context, tries)
  local id = { collection = "guess_best", key = "best", user_id = context.user_id }
  local found = nk.storage_read({ id })
  if found[1] and found[1].value.tries <= tries then
    return
  end
  id.value = { username = context.username, tries = tries }
  id.permission_read, id.permission_write = 2, 0
  nk.storage_write({ id })
end

local function guess(context, payload)
  if not context.user_id then
    error({ "log in first", UNAUTHENTICATED })
  end
  -- Never trust a client: decode with pcall, and check everything.
  local is_json, wish = pcall(nk.json_decode, payload)
  local number = is_json and type(wish) == "table" and wish.number
  if type(number) ~= "number" then
    error({ 'send {"number": 5}', INVALID_ARGUMENT })
  end

  local game = load_game(context)
  game.tries = game.tries + 1
  if number ~= game.secret then
    save_game(context, game)
    return nk.json_encode({ answer = number < game.secret and "higher" or "lower" })
  end
  keep_score(context, game.tries)
  save_game(context, { secret = math.random(SECRET_MAX), tries = 0 })
  return nk.json_encode({ answer = "right", tries = game.tries })
end

local function best(context, payload)
  local objects = nk.storage_list(nil, "guess_best", 100)
  table.sort(objects, function(a, b) return a.value.tries < b.value.tries end)
  local scores = {}
  for index, object in ipairs(objects) do
    scores[index] = object.value
  end
  return nk.json_encode({ best = scores })
end

nk.register_rpc(guess, "guess")
nk.register_rpc(best, "best")
