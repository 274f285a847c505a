-- Library calls that would go on for minutes if nothing counted their steps, and Lua 5.1 with goto.
local nk = require("nakama")

local cases = {
  pattern = function() return string.match(("a"):rep(4e6), "^[^" .. ("b"):rep(1e6) .. "]*") end,
  backtrack = function() return string.find(("a"):rep(1e6), ("a*"):rep(50) .. "b") end,
  gsub = function() return string.gsub(("a"):rep(1e6), ("a?"):rep(60) .. "b", "x") end,
  gmatch = function() for _ in string.gmatch(("a"):rep(1e6), "(.-)(.-)b") do end end,
  balance = function() while true do string.find(("("):rep(4e6), "%b()") end end,
  sort = function()
    local t = {}
    for i = 1, 1e5 do t[i] = ("x"):rep(50) .. i * 7919 % 1e5 end
    while true do table.sort(t) end
  end,
  insert = function()
    local t = table.create(2e6, 1)
    while true do table.insert(t, 1, 2) end
  end,
  format = function() while true do string.format(("%s"):rep(1e4), 1) end end,
  load = function() while true do loadstring(("x = {} "):rep(3e4)) end end,
}

-- Texts that a translation could take minutes for, or make many times as long. Each is loaded once.
local function numbered(count, part)
  local parts = {}
  for at = 1, count do parts[at] = part:gsub("#", at) end
  return table.concat(parts)
end
local texts = {
  path = function() return "return x" .. (".a"):rep(1e5) end,
  gotos = function() return "do " .. ("goto a "):rep(36000) .. " ::a:: end" end,
  scopes = function() return "do goto a " .. ("goto a local b "):rep(17000) .. " ::a:: end" end,
  locals = function() return numbered(1900, "local a# ") .. ("x=y "):rep(55000) end,
  labels = function() return ("do " .. numbered(30, "::a#:: x() ") .. numbered(30, "goto a# ") .. "end "):rep(300) end,
  entries = function()
    local jumps = numbered(190, "goto a# ")
    return ("do " .. jumps .. numbered(190, "::a#:: x() ") .. jumps .. "x() end "):rep(40)
  end,
  leaving = function()
    local jumps, labels = numbered(190, "goto a# "), numbered(190, "::a#:: x() ")
    return ("do " .. ("while x do "):rep(150) .. jumps .. ("end "):rep(150) .. labels .. "end "):rep(40)
  end,
}
for name, text in pairs(texts) do
  cases["load " .. name] = function() loadstring(text()) end
end

nk.register_rpc(function(context, payload)
  cases[nk.json_decode(payload).case]()
end, "e2e_library")

local M = {}
function M.match_init(context, params) return { case = params.case }, 10, "library" end
function M.match_loop(context, dispatcher, tick, state)
  for round = 1, 3 do
    if round < 3 then goto continue end
    cases[state.case]()
    ::continue::
  end
  -- Once is enough: the match ends.
end

nk.register_rpc(function(context, payload)
  return nk.match_create("library", nk.json_decode(payload))
end, "e2e_library_match")

return M
