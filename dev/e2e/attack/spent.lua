-- Computes for a second while it loads, and has functions that use up their VM's memory when they are told to.
local nk = require("nakama")

local began = os.clock()
while os.clock() - began < 1 do
end

local kept = {}
local function fill(payload)
  while payload == "fill" do
    kept[#kept + 1] = ("x"):rep(1000000) .. #kept
  end
end

for number = 1, 32 do
  nk.register_rpc(function(context, payload)
    fill(payload)
    return "ok"
  end, "fill" .. number)
  nk.register_rpc(function(context, payload)
    nk.storage_write({ { collection = "spent", key = "key", user_id = context.user_id, value = {} } })
    fill(payload)
    return "ok"
  end, "save" .. number)
end
