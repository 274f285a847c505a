--[[
Handlers of events for the test of the same name: each keeps what it hears in an object of its user. In a folder of its
own, because where there are handlers every session is told of.
--]]
local nk = require("nakama")

local function key(of)
  return { { collection = "events", key = "heard", user_id = of } }
end

local function heard(of)
  local object = nk.storage_read(key(of))[1]
  return object and object.value.list or {}
end

local function note(context, event)
  local of = context.user_id or event.properties.user_id
  local list = heard(of)
  list[#list + 1] = {
    name = event.name,
    properties = event.properties,
    timestamp = event.timestamp,
    external = event.external,
    username = context.username,
    session = context.session_id ~= nil,
  }
  nk.storage_write({ { collection = "events", key = "heard", user_id = of, value = { list = list } } })
end

nk.register_event(note)
nk.register_event_session_start(note)
nk.register_event_session_end(note)

nk.register_rpc(function(context)
  return nk.json_encode(heard(context.user_id))
end, "events_heard")

nk.register_rpc(function(context)
  nk.event("of_script", { user_id = context.user_id }, 1700000000)
end, "events_tell")

nk.register_req_before(function(_context, event)
  if event.name == "refused" then
    error({ "not this one", 7 })
  end
  event.properties = { hooked = "yes" }
  return event
end, "Event")
