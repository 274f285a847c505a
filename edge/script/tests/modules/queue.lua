-- A queue, a list and a cache that forgets.
local nk = require("nakama")
local Queue = {}
Queue.__index = Queue
Queue.__len = function(self) return self.last - self.first + 1 end
function Queue.new() return setmetatable({ first = 0, last = -1 }, Queue) end
function Queue:push(v) self.last = self.last + 1; self[self.last] = v; return self end
function Queue:pop()
  if self.first > self.last then return nil, "empty" end
  local v = self[self.first]
  self[self.first] = nil
  self.first = self.first + 1
  return v
end
local function lru(max)
  local order, values = {}, {}
  return function(key, make)
    for i, k in ipairs(order) do if k == key then table.remove(order, i) break end end
    table.insert(order, 1, key)
    if values[key] == nil then values[key] = make(key) end
    while #order > max do values[table.remove(order)] = nil end
    return values[key]
  end
end
nk.register_rpc(function()
  local q = Queue.new()
  q:push(1):push(2):push(3)
  assert(q:pop() == 1 and q:pop() == 2 and q:pop() == 3 and select("#", q:pop()) == 2)
  local made, cache = 0, lru(2)
  local function make(k) made = made + 1 return k .. "!" end
  cache("a", make) cache("b", make) cache("a", make) cache("c", make) cache("b", make)
  assert(made == 4)
  local list = nil
  for i = 1, 3 do list = { next = list, value = i } end
  local l, text = list, {}
  while l do text[#text + 1] = l.value; l = l.next end
  assert(table.concat(text, ",") == "3,2,1")
  return "ok"
end, "queue")
