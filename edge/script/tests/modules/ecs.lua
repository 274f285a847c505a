-- Entities, read-only tables, weak caches, counted identifiers.
local nk = require("nakama")
local function readonly(t)
  return setmetatable({}, { __index = t, __newindex = function(_, k) error("attempt to update read-only '" .. tostring(k) .. "'", 2) end, __metatable = false })
end
local World = {}
World.__index = World
function World.new() return setmetatable({ next_id = 0, components = setmetatable({}, { __index = function(t, k) local c = {}; rawset(t, k, c); return c end }) }, World) end
function World:spawn(parts)
  self.next_id = self.next_id + 1
  for name, data in pairs(parts) do self.components[name][self.next_id] = data end
  return self.next_id
end
function World:each(first, ...)
  local others, stores = { ... }, self.components
  return coroutine and nil or function(_, id)
    local data
    while true do
      id, data = next(stores[first], id)
      if id == nil then return nil end
      local all = true
      for _, name in ipairs(others) do if stores[name][id] == nil then all = false end end
      if all then return id, data end
    end
  end, nil, nil
end
nk.register_rpc(function()
  local config = readonly({ speed = 2 })
  assert(config.speed == 2 and not pcall(function() config.speed = 3 end) and getmetatable(config) == false)
  local w = World.new()
  w:spawn({ pos = { x = 1 }, vel = { x = 2 } }) w:spawn({ pos = { x = 5 } })
  local moved = 0
  for id, pos in w:each("pos", "vel") do pos.x = pos.x + w.components.vel[id].x * config.speed moved = moved + 1 end
  assert(moved == 1 and w.components.pos[1].x == 5)
  local cache = setmetatable({}, { __mode = "k" })
  cache[{}] = 1
  local t = { 1, 2, 3, nil, 5 }
  assert(#t == 5 or #t == 3)
  local v = setmetatable({ 1, 2 }, { __add = function(a, b) return a[1] + b end, __concat = function() return "cat" end, __call = function(self, x) return x end, __unm = function() return "neg" end, __lt = function() return true end })
  assert(v + 1 == 2 and v .. "x" == "cat" and v(9) == 9 and -v == "neg" and v < v)
  return "ok"
end, "ecs")
