-- Loads library.lua when scripts may have changed the globals already, under the name [throng]. Gives the
-- library's functions by name.

local native, kept = ...

local raise, getfenv, setfenv = kept[1], kept[2], kept[6]

-- The stand-in is one more between the library's function and who called it, and these are another.
local function raise_above(problem, level)
  raise(problem, level > 0 and level + 2 or 0)
end
local function setfenv_above(level, environment)
  return setfenv(level + 2, environment)
end

local text = {
  byte = kept[15], find = kept[16], format = kept[17], gsub = kept[18], lower = kept[19],
  match = kept[20], rep = kept[21], sub = kept[22], upper = kept[23],
}
local list, number = { concat = kept[13], sort = kept[14] }, { floor = kept[11], random = kept[12], randomseed = kept[26] }
local clock = { date = kept[24], time = kept[25] }
local world = {
  error = raise_above, getfenv = getfenv, pcall = kept[3], rawget = kept[4], select = kept[5],
  setfenv = setfenv_above, setmetatable = kept[7], tonumber = kept[8], tostring = kept[9], type = kept[10],
  string = text, table = list, math = number, os = clock,
}
native.open_library(native, world)

-- Scripts may ask functions for their globals: they are shown the scripts' own.
-- (What was loading in a call is noticed when it ends, and `getfenv` and `setfenv` are taken back. It ends
-- at once: if memory ran out between, what scripts write to globals would be there to stay.)
local found, globals = {}, getfenv(0)
native.loading(1)
native.loading(-1)
for _, functions in { text, list, number, clock, world } do
  for name, made in functions do
    if kept[10](made) == "function" then
      found[name] = made
    end
  end
end
for _, name in {
  "find", "format", "gfind", "gmatch", "gsub", "lower", "match", "rep", "upper", "concat", "sort",
  "random", "randomseed", "date", "time", "load", "loadstring", "module", "print",
} do
  setfenv(found[name], globals)
end

-- What gmatch gives to loops is not called through a stand-in, and has one more here instead.
local gmatch = found.gmatch
local function gmatch_below(...)
  local step = gmatch(...)
  return function()
    return step()
  end
end
found.gmatch, found.gfind = gmatch_below, gmatch_below
return found
