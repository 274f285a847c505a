-- The libraries as Nakama's scripts know them, where Luau's differ, under the name [throng]. Runs at the
-- start of a VM whose modules name any of these functions, and otherwise when one of their stand-ins is
-- called (stand_ins.lua): then its globals are a copy. What loops here in Lua is interrupted as any script is.

local native, part = ...

local error, getfenv, pcall, rawget, select = error, getfenv, pcall, rawget, select
local setfenv, setmetatable, tonumber, tostring, type = setfenv, setmetatable, tonumber, tostring, type
local floor, concat, byte, sub = math.floor, table.concat, string.byte, string.sub

local function wrong(index, name, wanted, value)
  error("bad argument #" .. index .. " to '" .. name .. "' (" .. wanted .. " expected, got "
    .. (value == nil and "no value" or type(value)) .. ")", 3)
end

-- Rust says false and a text where it refuses.
local function checked(first, ...)
  if first == false then
    error((...), 3)
  end
  return first, ...
end

-- string

local find, match, step, gsub, format = native.find, native.match, native.step, native.gsub, native.format

-- Luau's own are faster, and good where a short text bounds what they do: a pattern of `length` signs
-- with `repeats` repetitions takes `length * (#text + 1) ^ (repeats + 1)` steps at most.
local LIMITS_MAX = 1000
local quick_find, quick_match, quick_gsub = string.find, string.match, string.gsub
local limits, limit_count = {}, 0

-- Where the next search begins, and what was captured.
local function after(level, first, last, ...)
  if first == false then
    error(last, level)
  end
  return first, last, ...
end

-- The functions of rare.lua, loaded when one of them is called first.
local rare
local function rarely()
  if not rare then
    rare = part("rare")(native, error, pcall, quick_find, quick_gsub, byte, sub, floor, concat, type, after)
  end
  return rare
end

-- How long a text may be for Luau's functions to search it for `pattern`.
local function limit_of(pattern)
  local limit = rarely().limit_of(pattern)
  if limit >= 0 then
    if limit_count >= LIMITS_MAX then
      limits, limit_count = {}, 0
    end
    limits[pattern], limit_count = limit, limit_count + 1
  end
  return limit
end

local function is_quick(text, pattern)
  if type(text) ~= "string" or type(pattern) ~= "string" then
    return false
  end
  return #text <= (limits[pattern] or limit_of(pattern))
end

function string.find(text, pattern, init, plain)
  if is_quick(text, pattern) then
    return quick_find(text, pattern, init, plain)
  end
  return checked(find(text, pattern, tonumber(init), plain))
end

function string.match(text, pattern, init)
  if is_quick(text, pattern) then
    return quick_match(text, pattern, init)
  end
  return checked(match(text, pattern, tonumber(init)))
end

-- Of the formats that Luau and Go read alike, Luau's own function makes most; it raises an error where
-- Go prints what is wrong.
local quick_format = string.format
local alike, alike_count = {}, 0

local function is_alike(form)
  local known = type(form) == "string" and rarely().is_alike(form)
  if known ~= nil and type(form) == "string" then
    if alike_count >= LIMITS_MAX then
      alike, alike_count = {}, 0
    end
    alike[form], alike_count = known, alike_count + 1
  end
  return known
end

function string.format(form, ...)
  local known = alike[form]
  if known == nil and form ~= nil then
    known = is_alike(form)
  end
  if known then
    local ok, text = pcall(quick_format, form, ...)
    if ok then
      return text
    end
  end
  return checked(format(form, ...))
end

local function text_of(value, index, name)
  if type(value) == "string" then
    return value
  end
  if type(value) ~= "number" then
    error("bad argument #" .. index .. " to '" .. name .. "' (string expected, got "
      .. (value == nil and "no value" or type(value)) .. ")", 3)
  end
  return tostring(value)
end

function string.gmatch(text, pattern)
  text, pattern = text_of(text, 1, "gmatch"), text_of(pattern, 2, "gmatch")
  local from, length, anchored = 0, #text, sub(pattern, 1, 1) == "^"
  local function advance(first, last, ...)
    if not first then
      from = length + 1
      return nil
    end
    from = (anchored and length or last) + ((anchored or last == first) and 1 or 0)
    return ...
  end
  return function()
    if from > length then
      return nil
    end
    return advance(after(3, step(text, pattern, from)))
  end
end
string.gfind = string.gmatch

function string.gsub(text, pattern, with, most)
  text, pattern = text_of(text, 1, "gsub"), text_of(pattern, 2, "gsub")
  most = tonumber(most) or 1 / 0
  if most < 0 then
    most = 1 / 0
  end
  local kind = type(with)
  if kind == "string" or kind == "number" then
    return checked(gsub(text, pattern, tostring(with), most))
  elseif kind == "function" or kind == "table" then
    return rarely().replace_each(text, pattern, with, most)
  end
  wrong(3, "gsub", "string, table or function", with)
end

do
  -- Luau counts repetitions in 32 bits: what does not fit would come out short, without a word.
  local rep = string.rep
  function string.rep(text, count, separator)
    if tonumber(count) and tonumber(count) > 0x7fffffff then
      error("resulting string too large", 2)
    end
    return rep(text, count, separator)
  end
end

do
  -- Luau knows ASCII only. A number is its text here, as everywhere in the library.
  local map_case, ascii_lower, ascii_upper = native.map_case, string.lower, string.upper
  -- To look for a byte above 127 costs more than the call where the text is long.
  local function is_for_map_case(text)
    return type(text) == "string" and (#text > 128 or quick_find(text, "[\128-\255]"))
  end
  function string.lower(text)
    if is_for_map_case(text) then
      return map_case(text, false)
    end
    return ascii_lower(text)
  end
  function string.upper(text)
    if is_for_map_case(text) then
      return map_case(text, true)
    end
    return ascii_upper(text)
  end
end

-- table

-- Luau's quicksort raises an error for an order that contradicts itself, and asks nobody whether the
-- call's time is over. So it sorts short lists only; merging does the others.
local QUICK_MAX = 2000
local quick_sort = table.sort

function table.sort(list, less)
  if type(list) ~= "table" then
    wrong(1, "sort", "table", list)
  elseif less ~= nil and type(less) ~= "function" then
    wrong(2, "sort", "function", less)
  end
  local length = #list
  if length <= QUICK_MAX then
    local ok, problem = pcall(quick_sort, list, less)
    if ok then
      return
    elseif type(problem) ~= "string" or sub(problem, -34) ~= "invalid order function for sorting" then
      error(problem, type(problem) == "string" and sub(problem, 1, 7) == "attempt" and 2 or 0)
    end
  end
  rarely().merge_sort(list, length, less)
end

function table.concat(list, separator, from, to)
  if type(list) ~= "table" then
    wrong(1, "concat", "table", list)
  end
  local length = #list
  from, to = tonumber(from) or 1, tonumber(to) or length
  return concat(list, separator, from < 1 and 1 or from, to > length and length or to)
end

-- math

do
  local random = math.random
  function math.random(low, high)
    if low == nil then
      return random()
    end
    if high == nil then
      low, high = 1, low
    end
    low, high = tonumber(low), tonumber(high)
    if not low or not high then
      error("bad argument #1 to 'random' (number expected)", 2)
    end
    low = low < 0 and -floor(-low) or floor(low)
    high = high < 0 and -floor(-high) or floor(high)
    if not (low <= high) then
      error("bad argument #1 to 'random' (interval is empty)", 2)
    end
    if high - low < 0x7fffffff and low >= -0x80000000 and high <= 0x7fffffff then
      return random(low, high)
    end
    return low + floor(random() * (high - low + 1))
  end

  -- Luau takes 32 bits, and the same number instead of all that have more, as milliseconds do.
  local randomseed = math.randomseed
  function math.randomseed(seed)
    local number = tonumber(seed)
    if not number then
      error("bad argument #1 to 'randomseed' (number expected)", 2)
    end
    randomseed(floor(number) % 0x100000000 - 0x80000000)
  end
end

-- load

local load_text = native.load_text

function loadstring(text, name)
  if type(text) ~= "string" then
    wrong(1, "loadstring", "string", text)
  end
  return load_text(text, type(name) == "string" and name or "<string>")
end

-- Of a function's pieces as in 5.1, or of one text.
function load(from, name)
  name = type(name) == "string" and name or "?"
  if type(from) == "string" then
    return load_text(from, name)
  elseif type(from) ~= "function" then
    wrong(1, "load", "function", from)
  end
  return rarely().load(from, name)
end

-- module(name, ...): the caller's globals become a table of that name.
function module(name, ...)
  if type(name) ~= "string" then
    wrong(1, "module", "string", name)
  end
  local made = rarely().module(name, getfenv(0), package.loaded, match, rawget, string.gmatch)
  if not made then
    error("name conflict for module: " .. name, 2)
  end
  setfenv(2, made)
  for index = 1, select("#", ...) do
    (select(index, ...))(made)
  end
  return made
end

-- os

do
  local FORMAT_BYTES_MAX = 1000
  local date, time, now_ms = os.date, os.time, native.now_ms
  function os.date(form, when)
    if type(form) == "string" and #form > FORMAT_BYTES_MAX then
      error("bad argument #1 to 'date' (longer than " .. FORMAT_BYTES_MAX .. " bytes)", 2)
    end
    return date(form or "%c", when or floor(now_ms() / 1000))
  end
  function os.time(when)
    if when == nil then
      return floor(now_ms() / 1000)
    end
    return time(when)
  end
end

do
  local write = native.print
  function print(...)
    local parts = {}
    for index = 1, select("#", ...) do
      parts[index] = tostring((select(index, ...)))
    end
    write(concat(parts, "\t"))
  end
end
