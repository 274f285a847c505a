--[[
What scripts do with friends: functions for the tests of the same name, and hooks that only act on what those send.
Runs unmodified on Nakama and on throng.
--]]
local nk = require("nakama")

local function decoded(payload)
  return nk.json_decode(payload == "" and "{}" or payload)
end

nk.register_rpc(function(ctx, payload)
  local input = decoded(payload)
  local me = ctx.user_id
  nk.friends_add(me, ctx.username, { input.other }, {}, { team = "blue", since = 1 })
  nk.friends_add(input.other, input.name, {}, { ctx.username })
  nk.friend_metadata_update(me, input.other, { team = "red", since = 1 })
  local list = {}
  local friends = nk.friends_list(me, 10, 0)
  for i, friend in ipairs(friends) do
    list[i] = { name = friend.user.username, state = friend.state, metadata = friend.metadata }
  end
  local status = {}
  for i, friend in ipairs(nk.users_get_friend_status(me, { input.other, me })) do
    status[i] = friend.state
  end
  return nk.json_encode({ list = list, status = status })
end, "friends_pair")

nk.register_rpc(function(ctx, payload)
  local input = decoded(payload)
  nk.friends_block(ctx.user_id, ctx.username, { input.other }, {})
  local blocked = {}
  for i, friend in ipairs(nk.friends_list(ctx.user_id, 10)) do
    blocked[i] = friend.state
  end
  nk.friends_delete(ctx.user_id, ctx.username, { input.other }, {})
  return nk.json_encode({ blocked = blocked, list = #nk.friends_list(ctx.user_id, 10) })
end, "friends_part")

nk.register_req_before(function(_ctx, payload)
  local metadata = payload.metadata and nk.json_decode(payload.metadata) or {}
  if metadata.hooked == "refuse" then
    error({ "no friends today", 7 })
  end
  if metadata.hooked then
    payload.ids = { metadata.hooked }
  end
  return payload
end, "AddFriends")

nk.register_req_after(function(ctx, out, _request)
  if not out.friends then
    return
  end
  local seen = {}
  for i, friend in ipairs(out.friends) do
    seen[i] = { name = friend.user.username, state = friend.state }
  end
  nk.storage_write({
    { collection = "friends", key = "seen", user_id = ctx.user_id, value = { seen = seen } },
  })
end, "ListFriends")

nk.register_rpc(function(ctx)
  local objects = nk.storage_read({ { collection = "friends", key = "seen", user_id = ctx.user_id } })
  return nk.json_encode(objects[1] and objects[1].value or {})
end, "friends_seen")
