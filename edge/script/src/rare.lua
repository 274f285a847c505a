-- What the libraries seldom need, under the name [throng]: loaded when it is called first. That may be
-- in the middle of a call, when scripts may have put their own in the globals' places, so nothing is
-- taken from there.

local native, error, pcall, quick_find, quick_gsub, byte, sub, floor, concat, type, after = ...

local step, load_text = native.step, native.load_text
local STEPS_MAX, PATTERN_MAX = 1e6, 100
local rare = {}

-- How long a text may be for Luau's functions to search it for `pattern`.
function rare.limit_of(pattern)
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
  return floor((STEPS_MAX / (length + 1)) ^ (1 / (repeats + 1))) - 1
end

-- Whether Luau and Go read a format alike; nil if it is too long to be looked at.
function rare.is_alike(form)
  if #form > PATTERN_MAX then
    return nil
  end
  local rest = quick_gsub(quick_gsub(form, "%%%%", ""), "%%s", "")
  rest = quick_gsub(rest, "%%[-+ 0]?%d?%d?d", "")
  rest = quick_gsub(rest, "%%[-+ 0]?%d?%d?%.%d?%d?f", "")
  return quick_find(rest, "%", 1, true) == nil
end

-- Puts `with(captures)` or `with[capture]` in the place of each match.
function rare.replace_each(text, pattern, with, most)
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

function rare.merge_sort(list, length, less)
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

-- What the pieces that `from` returns are together, as a function.
function rare.load(from, name)
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

-- The table of a module, nil if there is something else in its place.
function rare.module(name, globals, loaded, match, rawget, gmatch)
  local made = loaded[name]
  if type(made) ~= "table" then
    made = globals
    for part in gmatch(name, "[^.]+") do
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
        return nil
      end
      made = inner
    end
    loaded[name] = made
  end
  if made._NAME == nil then
    made._M, made._NAME = made, name
    made._PACKAGE = match(name, "^(.*%.)[^.]*$") or ""
  end
  return made
end

return rare
