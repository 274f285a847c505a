-- Ids and codes by chance.
local nk = require("nakama")
math.randomseed(os.time()); math.random(); math.random()
local function uuid()
  local template = "xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx"
  return (string.gsub(template, "[xy]", function(c)
    local v = (c == "x") and math.random(0, 0xf) or math.random(8, 0xb)
    return string.format("%x", v)
  end))
end
local ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
local function code(length)
  local out = ""
  for i = 1, length do
    local at = math.random(#ALPHABET)
    out = out .. ALPHABET:sub(at, at)
  end
  return out
end
local function pick(weights)
  local total = 0
  for _, w in pairs(weights) do total = total + w end
  local roll = math.random() * total
  for name, w in pairs(weights) do
    roll = roll - w
    if roll <= 0 then return name end
  end
end
nk.register_rpc(function()
  assert(uuid():match("^%x+%-%x+%-4%x+%-[89ab]%x+%-%x+$"), uuid())
  assert(#code(6) == 6 and not code(50):find("[^%u%d]"))
  assert(pick({ common = 90, rare = 10 }))
  local seed = math.random(1, 2 ^ 40)
  assert(seed >= 1 and seed <= 2 ^ 40)
  local cards = {}
  for i = 1, 52 do cards[i] = i end
  for i = #cards, 2, -1 do
    local j = math.random(i)
    cards[i], cards[j] = cards[j], cards[i]
  end
  local sum = 0
  for _, c in ipairs(cards) do sum = sum + c end
  assert(sum == 1378)
  return "ok"
end, "ids")
