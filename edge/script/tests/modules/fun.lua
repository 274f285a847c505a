-- map, filter, fold and friends.
local nk = require("nakama")
local fun = {}
function fun.map(t, f) local out = {} for k, v in pairs(t) do out[k] = f(v, k) end return out end
function fun.filter(t, p) local out = {} for _, v in ipairs(t) do if p(v) then out[#out + 1] = v end end return out end
function fun.fold(t, f, z) for i = 1, #t do z = f(z, t[i]) end return z end
function fun.keys(t) local out = {} for k in next, t do out[#out + 1] = k end table.sort(out, function(a, b) return tostring(a) < tostring(b) end) return out end
function fun.copy(o, seen)
  if type(o) ~= "table" then return o end
  seen = seen or {}
  if seen[o] then return seen[o] end
  local c = {}
  seen[o] = c
  for k, v in pairs(o) do c[fun.copy(k, seen)] = fun.copy(v, seen) end
  return setmetatable(c, getmetatable(o))
end
function fun.dump(o, depth)
  depth = depth or 0
  if type(o) ~= "table" then return type(o) == "string" and string.format("%q", o) or tostring(o) end
  local s = "{\n"
  for _, k in ipairs(fun.keys(o)) do s = s .. ("  "):rep(depth + 1) .. "[" .. fun.dump(k) .. "] = " .. fun.dump(o[k], depth + 1) .. ",\n" end
  return s .. ("  "):rep(depth) .. "}"
end
nk.register_rpc(function()
  local t = fun.map({ 1, 2, 3, 4 }, function(x) return x * x end)
  assert(fun.fold(fun.filter(t, function(x) return x % 2 == 0 end), function(a, b) return a + b end, 0) == 20)
  local deep = { a = { b = { 1 } } } deep.me = deep
  local copy = fun.copy(deep)
  assert(copy ~= deep and copy.me == copy and copy.a.b[1] == 1 and copy.a ~= deep.a)
  assert(fun.dump({ x = 1, y = { "z" } }) == '{\n  ["x"] = 1,\n  ["y"] = {\n    [1] = "z",\n  },\n}')
  return "ok"
end, "fun")
return fun
