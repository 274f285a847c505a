-- Formulas from data, in an environment of their own.
local nk = require("nakama")
local function compile(text)
  local f, err = loadstring("return function(hp, level) return " .. text .. " end", "=formula")
  if not f then return nil, err end
  setfenv(f, { math = math, floor = math.floor })
  return f()
end
local function render(template, values)
  return (template:gsub("{{%s*([%w_.]+)%s*}}", function(path)
    local at = values
    for part in path:gmatch("[^.]+") do at = type(at) == "table" and at[part] or nil end
    return at ~= nil and tostring(at) or nil
  end))
end
nk.register_rpc(function()
  assert(compile("floor(hp * 1.5 + level)")(10, 2) == 17)
  local bad, err = compile("hp +* 2")
  assert(bad == nil and err:find("formula:1:", 1, true), err)
  assert(render("Hi {{ user.name }}, {{n}} of {{missing}}", { user = { name = "Bo" }, n = 3 }) == "Hi Bo, 3 of {{missing}}")
  local env = setmetatable({}, { __index = _G })
  local f = function() made_here = 1 return made_here end
  setfenv(f, env)
  assert(f() == 1 and rawget(_G, "made_here") == nil and env.made_here == 1 and getfenv(f) == env)
  return "ok"
end, "formula")
