-- The messages of a tick, under the name [throng]. May be loaded in the middle of a match, as
-- match_players.lua.
--
-- They come packed, see matches.rs. Whoever sends for the first time is introduced before them, so that
-- the same three strings are not made for each message.

local native = ...

local clone, unpack_bytes, node = native.clone, native.unpack, native.node

local senders = {}

return function(packed, count, new_count)
  local list, position = {}, 1
  local at, user_id, session_id, op_code, time_ms, reliable, username, data
  for _ = 1, new_count do
    at, user_id, session_id, username, position = unpack_bytes("<I4c36c36s4", packed, position)
    senders[at] = { user_id = user_id, session_id = session_id, username = username, node = node }
  end
  for index = 1, count do
    at, op_code, time_ms, reliable, data, position = unpack_bytes("<I4ddBs4", packed, position)
    list[index] = {
      -- A copy: the table is the script's, to change or to keep.
      sender = clone(senders[at]),
      op_code = op_code, data = data, reliable = reliable == 1, receive_time_ms = time_ms,
    }
  end
  return list
end
