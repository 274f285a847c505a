-- The prelude's part for matches, under the name [throng]: this VM runs one. How it begins is in
-- match_start.lua, which is thrown away then; what happens when players come and go, and signals, are in
-- match_players.lua, and messages in match_messages.lua, loaded when they are needed first.

local native, entry, fail, handler, require, loading_ends = ...

local error, select, setmetatable, xpcall = error, select, setmetatable, xpcall

local callbacks, context, loop, state

-- The dispatcher's functions give nil or an error's text.
local function dispatching(name)
  local call
  return function(...)
    if not call then
      call = native[name]
    end
    local problem = call(...)
    if problem then
      error(problem, 2)
    end
  end
end

-- What a busy match does most.
local broadcast = native.broadcast_message

local dispatcher = {
  broadcast_message = function(op_code, data, presences, sender, reliable)
    local problem = broadcast(op_code, data, presences, sender, reliable)
    if problem then
      error(problem, 2)
    end
  end,
  broadcast_message_deferred = dispatching("broadcast_message_deferred"),
  match_kick = dispatching("match_kick"),
  match_label_update = dispatching("match_label_update"),
}

function entry.match_label(label)
  context.match_label = label
end

-- True and whether the match goes on, or an error.
local function settle(what, ok, ...)
  if not ok then
    return fail((...))
  end
  local count = select("#", ...)
  local new = count > 0 and select(count, ...)
  if count == 0 or new == nil then
    state = nil
    return true, false
  end
  if count > 1 then
    return false, "Match " .. what .. " returned too many values, stopping match"
  end
  state = new
  return true, true
end

-- From the first message on; most of the matches that stand ready hear none.
local read_messages

function entry.match_loop(tick, packed, count, new_count)
  if packed and not read_messages then
    read_messages = native.part("match_messages")(native)
  end
  return settle("loop", xpcall(loop, handler, context, dispatcher, tick, state,
    packed and read_messages(packed, count, new_count) or {}))
end

-- What match_players.lua needs: calls a callback.
local function call(settled, what, callback, given, tick, ...)
  return settled(what, xpcall(callback, handler, given, dispatcher, tick, state, ...))
end

-- The next state.
local function keep(new)
  state = new
end

-- Runs callbacks one after the other, for as long as the match: so a tick needs no coroutine of its own.
-- What is given are an entry point and its arguments, at most nine; what it returns comes back.
local yield = native.yield

function entry.match_run()
  local callback, a, b, c, d, e, f, g, h, i = yield()
  while true do
    local ok, first, second, third = callback(a, b, c, d, e, f, g, h, i)
    -- All that is large is in here, and is not needed until the next callback comes.
    b = nil
    callback, a, b, c, d, e, f, g, h, i = yield(ok, first, second, third)
  end
end

-- The other entry points are loaded when Rust asks for one of them.
setmetatable(entry, {
  __index = function(_, name)
    native.part("match_players")(native, entry, fail, callbacks, context, settle, call, keep)
    setmetatable(entry, nil)
    callbacks = nil
    return entry[name]
  end,
})

native.part("match_start")(native, entry, fail, handler, require, function(opened, known)
  callbacks, context, loop = opened, known, opened.match_loop
  loading_ends()
end, keep)
