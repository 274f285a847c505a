-- Runs at the start of a match's VM whose modules name none of the library functions that differ from
-- Luau's, under the name [throng]: each gets a stand-in, for whoever finds it without its name
-- (`string[name]`, `pairs(string)`). The first that is called loads library.lua, on a copy of what the
-- globals are now, because scripts may have changed them by then.

local native = ...

-- As late.lua reads it.
local kept = {
  error, getfenv, pcall, rawget, select, setfenv, setmetatable, tonumber, tostring, type, math.floor,
  math.random, table.concat, table.sort, string.byte, string.find, string.format, string.gsub,
  string.lower, string.match, string.rep, string.sub, string.upper, os.date, os.time, math.randomseed,
}
local opened

local function find(name)
  if not opened then
    opened = native.part("late")(native, kept)
  end
  return opened[name]
end

local function stand_in(name)
  return function(...)
    return find(name)(...)
  end
end

for _, name in { "find", "format", "gfind", "gmatch", "gsub", "lower", "match", "rep", "upper" } do
  string[name] = stand_in(name)
end
table.concat, table.sort = stand_in("concat"), stand_in("sort")
math.random, math.randomseed = stand_in("random"), stand_in("randomseed")
os.date, os.time = stand_in("date"), stand_in("time")
load, loadstring, module, print =
  stand_in("load"), stand_in("loadstring"), stand_in("module"), stand_in("print")
