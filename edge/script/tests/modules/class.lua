-- Classes with inheritance, as many libraries of the time make them.
local nk = require("nakama")

local function class(base)
  local c = {}
  if type(base) == "table" then
    for k, v in pairs(base) do c[k] = v end
    c._base = base
  end
  c.__index = c
  return setmetatable(c, { __call = function(_, ...)
    local o = setmetatable({}, c)
    if c.init then c.init(o, ...) end
    return o
  end })
end

local Animal = class()
function Animal:init(name) self.name = name end
function Animal:speak() return self.name .. " makes a sound" end
Animal.__tostring = function(self) return "Animal<" .. self.name .. ">" end
Animal.__eq = function(a, b) return a.name == b.name end

local Dog = class(Animal)
function Dog:init(name, breed)
  Animal.init(self, name);
  self.breed = breed or "mutt";
end
function Dog:speak() return Animal.speak(self):gsub("a sound", "woof") end

nk.register_rpc(function()
  local d = Dog("Rex")
  assert(tostring(d) == "Animal<Rex>")
  assert((d:speak()) == "Rex makes woof")
  assert(Animal("a") == Animal("a") and rawequal(d, d))
  return "ok"
end, "class")
