-- States that call one another, and functions with any number of arguments.
local nk = require("nakama")
local states = {}
function states.start(n) if n == 0 then return "done" end return states.middle(n) end
function states.middle(n) return states.start(n - 1) end
local function log(...)
  local parts = {}
  for i = 1, arg.n do parts[i] = tostring(arg[i]) end
  return table.concat(parts, "\t")
end
local function sum(...)
  local total = 0
  for _, v in ipairs({ ... }) do total = total + v end
  return total, select("#", ...)
end
local function count_down(n)
  ::top::
  if n == 0 then return "zero" end
  n = n - 1
  goto top
end
local function bind(f, ...)
  local bound = { ... }
  return function(...)
    local all = { unpack(bound) }
    for i = 1, select("#", ...) do all[#all + 1] = (select(i, ...)) end
    return f(unpack(all))
  end
end
nk.register_rpc(function()
  assert(states.start(1000) == "done")
  assert(log(1, nil, "x") == "1\tnil\tx")
  local total, n = sum(1, 2, 3)
  assert(total == 6 and n == 3 and bind(sum, 1, 2)(3) == 6)
  assert(count_down(10000) == "zero")
  local fib = setmetatable({}, { __index = function(t, n) local v = n < 2 and n or t[n - 1] + t[n - 2]; rawset(t, n, v); return v end })
  assert(fib[30] == 832040)
  return "ok"
end, "fsm")
