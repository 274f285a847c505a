-- Runs before the prelude in every VM, under the name [throng]: the libraries as Nakama's scripts
-- know them, where Luau's differ. What loops here in Lua is interrupted as any script is.

local native = ...

local error, getfenv, pcall, rawget, select = error, getfenv, pcall, rawget, select
local setfenv, setmetatable, tonumber, tostring, type = setfenv, setmetatable, tonumber, tostring, type
local floor, concat, byte, sub = math.floor, table.concat, string.byte, string.sub

_VERSION = "Lua 5.1"

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
local STEPS_MAX, PATTERN_MAX, LIMITS_MAX = 1e6, 100, 1000
local quick_find, quick_match = string.find, string.match
local limits, limit_count = {}, 0

-- How long a text may be for Luau's functions to search it for `pattern`.
local function limit_of(pattern)
  local length = #pattern
  if length > PATTERN_MAX or not pcall(quick_find, "", pattern) then
    return -1
  end
  local repeats = 0
  for at = 1, length do
    local sign = byte(pattern, at)
    if sign == 37 then
      -- %b and %1 look at much, too.
      sign = byte(pattern, at + 1) or 0
      if sign == 98 or sign >= 48 and sign <= 57 then
        repeats = repeats + 1
      end
    elseif sign == 42 or sign == 43 or sign == 45 or sign == 63 then
      repeats = repeats + 1
    end
  end
  if limit_count >= LIMITS_MAX then
    limits, limit_count = {}, 0
  end
  local limit = floor((STEPS_MAX / (length + 1)) ^ (1 / (repeats + 1))) - 1
  limits[pattern], limit_count = limit, limit_count + 1
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
local quick_format, quick_gsub = string.format, string.gsub
local alike, alike_count = {}, 0

local function is_alike(form)
  if type(form) ~= "string" or #form > PATTERN_MAX then
    return false
  end
  local rest = quick_gsub(quick_gsub(form, "%%%%", ""), "%%s", "")
  rest = quick_gsub(rest, "%%[-+ 0]?%d?%d?d", "")
  rest = quick_gsub(rest, "%%[-+ 0]?%d?%d?%.%d?%d?f", "")
  if alike_count >= LIMITS_MAX then
    alike, alike_count = {}, 0
  end
  alike[form], alike_count = quick_find(rest, "%", 1, true) == nil, alike_count + 1
  return alike[form]
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

-- Where the next search begins, and what was captured.
local function after(level, first, last, ...)
  if first == false then
    error(last, level)
  end
  return first, last, ...
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

-- Puts `with(captures)` or `with[capture]` in the place of each match.
local function replace_each(text, pattern, with, most)
  local parts, count, from, replaced = {}, 0, 0, 0
  local length, anchored = #text, sub(pattern, 1, 1) == "^"
  local is_table = type(with) == "table"
  local first, last
  local function value_of(start, stop, ...)
    first, last = start, stop
    if start then
      if is_table then
        return with[(...)]
      end
      return with(...)
    end
    return nil
  end
  while replaced < most and from <= length do
    local value = value_of(after(4, step(text, pattern, from)))
    if not first then
      break
    end
    replaced = replaced + 1
    if first > from then
      count = count + 1
      parts[count] = sub(text, from + 1, first)
    end
    count = count + 1
    if value == nil or value == false then
      parts[count] = sub(text, first + 1, last)
    elseif type(value) == "string" or type(value) == "number" then
      parts[count] = value
    else
      parts[count] = ""
    end
    from = last
    if first == last then
      count = count + 1
      parts[count] = sub(text, last + 1, last + 1)
      from = last + 1
    end
    if anchored then
      break
    end
  end
  parts[count + 1] = sub(text, from + 1)
  return concat(parts), replaced
end

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
    return replace_each(text, pattern, with, most)
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
  string.split = nil
end

-- table

-- Luau's quicksort raises an error for an order that contradicts itself, and asks nobody whether the
-- call's time is over. So it sorts short lists only; merging does the others.
local function before(a, b)
  return a < b
end

local function insertion_sort(list, from, to, less)
  for at = from + 1, to do
    local value, hole = list[at], at
    while hole > from and less(value, list[hole - 1]) do
      list[hole] = list[hole - 1]
      hole = hole - 1
    end
    list[hole] = value
  end
end

local RUN, QUICK_MAX = 8, 2000
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
  less = less or before
  for from = 1, length, RUN do
    insertion_sort(list, from, from + RUN - 1 < length and from + RUN - 1 or length, less)
  end
  local width, source, target = RUN, list, length > RUN and {} or list
  while width < length do
    for from = 1, length, 2 * width do
      local middle = from + width
      local left, right, stop = from, middle, from + 2 * width
      if middle > length then
        middle, right = length + 1, length + 1
      end
      if stop > length + 1 then
        stop = length + 1
      end
      for at = from, stop - 1 do
        if left < middle and (right >= stop or not less(source[right], source[left])) then
          target[at] = source[left]
          left = left + 1
        else
          target[at] = source[right]
          right = right + 1
        end
      end
    end
    width, source, target = 2 * width, target, source
  end
  if source ~= list then
    for at = 1, length do
      list[at] = source[at]
    end
  end
end

function table.concat(list, separator, from, to)
  if type(list) ~= "table" then
    wrong(1, "concat", "table", list)
  end
  local length = #list
  from, to = tonumber(from) or 1, tonumber(to) or length
  return concat(list, separator, from < 1 and 1 or from, to > length and length or to)
end

-- Not in 5.1; its loop in C cannot be interrupted.
table.move = nil

-- math

math.mod = math.fmod

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
end

-- load

local load_text = native.load

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
  local parts = {}
  while true do
    local part = from()
    if part == nil or part == "" then
      return load_text(concat(parts), name)
    elseif type(part) ~= "string" and type(part) ~= "number" then
      return nil, "reader function must return a string"
    end
    parts[#parts + 1] = part
  end
end

-- module(name, ...): the caller's globals become a table of that name.
function module(name, ...)
  if type(name) ~= "string" then
    wrong(1, "module", "string", name)
  end
  local globals, loaded = getfenv(0), package.loaded
  local made = loaded[name]
  if type(made) ~= "table" then
    made = globals
    for part in string.gmatch(name, "[^.]+") do
      -- Sealed globals hold nothing themselves.
      local inner
      if made == globals then
        inner = made[part]
      else
        inner = rawget(made, part)
      end
      if inner == nil then
        inner = {}
        made[part] = inner
      elseif type(inner) ~= "table" then
        error("name conflict for module: " .. name, 2)
      end
      made = inner
    end
    loaded[name] = made
  end
  if made._NAME == nil then
    made._M, made._NAME = made, name
    made._PACKAGE = match(name, "^(.*%.)[^.]*$") or ""
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
  local date = os.date
  function os.date(form, when)
    if type(form) == "string" and #form > FORMAT_BYTES_MAX then
      error("bad argument #1 to 'date' (longer than " .. FORMAT_BYTES_MAX .. " bytes)", 2)
    end
    return date(form, when)
  end
end
