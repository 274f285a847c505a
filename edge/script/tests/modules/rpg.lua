-- Battles with effects over time, errors with codes, and a good deal of nil.
local nk = require("nakama")
local Effects = {
  poison = function(t) t.hp = t.hp - 2 end,
  regen = function(t) t.hp = math.min(t.hp + 1, t.max_hp or 10) end,
  [42] = "not a function",
}
local function turn(unit)
  for name, left in pairs(unit.effects or {}) do
    local effect = Effects[name]
    if type(effect) == "function" then effect(unit) end
    unit.effects[name] = left > 1 and left - 1 or nil
  end
  return unit
end
local function battle(a, b)
  local rounds = 0
  repeat
    rounds = rounds + 1
    if rounds > 100 then break end
    turn(a) turn(b)
    b.hp = b.hp - a.attack
    if b.hp <= 0 then goto over end
    a.hp = a.hp - b.attack
    ::over::
  until a.hp <= 0 or b.hp <= 0
  return a.hp > 0 and a or b, rounds
end
nk.register_rpc(function(context, payload)
  local won, rounds = battle({ name = "Ann", hp = 10, attack = 3 }, { name = "Orc", hp = 12, attack = 2, effects = { poison = 2 } })
  assert(won.name == "Ann" and rounds == 3, rounds)
  local text = string.format("%s won in %d rounds with %s (%s)", won.name, rounds, won.loot, context.user_id)
  assert(text == "Ann won in 3 rounds with nil (nil)", text)
  local ok, err = pcall(error, { code = 5, message = "no such unit" })
  assert(not ok and err.code == 5)
  local ok2, err2 = xpcall(function() local t = nil; return t.x end, function(e) return "caught: " .. e end)
  assert(not ok2 and err2:find("^caught: rpg.lua:%d+: attempt to index nil"), err2)
  return "ok"
end, "rpg")
