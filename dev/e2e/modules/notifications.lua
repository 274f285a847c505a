--[[
Notifications of scripts: functions for the tests of the same name, and hooks that only act on what those send. Runs
unmodified on Nakama and on throng.
--]]
local nk = require("nakama")

local function decoded(payload)
  return nk.json_decode(payload == "" and "{}" or payload)
end

nk.register_rpc(function(_ctx, payload)
  local input = decoded(payload)
  nk.notification_send(input.to, input.subject, input.content or {}, input.code or 1, input.sender, input.persistent)
end, "notify")

nk.register_rpc(function(_ctx, payload)
  nk.notifications_send(decoded(payload).list)
end, "notify_many")

nk.register_rpc(function(_ctx, payload)
  local input = decoded(payload)
  nk.notification_send_all(input.subject, input.content or {}, 7, input.persistent)
end, "notify_all")

-- Every function that reads, changes and deletes what is kept.
nk.register_rpc(function(ctx)
  local me = ctx.user_id
  for i = 1, 3 do
    nk.notification_send(me, "kept " .. i, { number = i }, i, me, true)
  end
  local first, cursor = nk.notifications_list(me, 2)
  local rest = nk.notifications_list(me, 2, cursor)
  nk.notifications_update({ { id = first[1].id, subject = "changed", content = { number = 10 } } })
  local found = nk.notifications_get_id({ first[1].id }, me)[1]
  nk.notifications_delete({ { user_id = me, notification_id = first[2].id } })
  nk.notifications_delete_id({ rest[1].id }, me)
  local left = nk.notifications_list(me)
  return nk.json_encode({
    pages = { #first, #rest },
    text = first[1].content,
    sender = first[1].senderId == me,
    found = { subject = found.subject, number = found.content.number, code = found.code },
    left = #left,
  })
end, "notify_own")

nk.register_req_before(function(_ctx, payload)
  if payload.limit == 99 then
    error({ "not so many", 7 })
  end
  return payload
end, "ListNotifications")

nk.register_req_after(function(ctx, _out, request)
  if #request.ids ~= 2 then
    return
  end
  nk.storage_write({
    { collection = "notifications", key = "deleted", user_id = ctx.user_id, value = { ids = request.ids } },
  })
end, "DeleteNotifications")
