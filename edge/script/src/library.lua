-- Runs before the prelude in every VM, under the name [throng]: the libraries as Nakama's scripts
-- know them, where Luau's differ. What loops here in Lua is interrupted as any script is.

local native = ...

local error, getfenv, pairs, rawget, select = error, getfenv, pairs, rawget, select
local setfenv, setmetatable, tonumber, tostring, type = setfenv, setmetatable, tonumber, tostring, type
local floor, concat, sub = math.floor, table.concat, string.sub

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

function string.find(text, pattern, init, plain)
  return checked(find(text, pattern, tonumber(init), plain))
end

function string.match(text, pattern, init)
  return checked(match(text, pattern, tonumber(init)))
end

function string.format(...)
  return checked(format(...))
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

-- Merges instead of Luau's quicksort: an order that contradicts itself is no error, and every
-- comparison is a step of the budget.
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

local RUN = 8

function table.sort(list, less)
  if type(list) ~= "table" then
    wrong(1, "sort", "table", list)
  end
  if less == nil then
    less = before
  elseif type(less) ~= "function" then
    wrong(2, "sort", "function", less)
  end
  local length = #list
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
