-- Computes for a second while it loads, and has functions that keep as many KiB of their VM's memory as they are told:
-- little with each call, so that calls stay quick until one finds the memory used up, however slow the machine.
local nk = require("nakama")

local began = os.clock()
while os.clock() - began < 1 do
end

local kept = {}
local function keep(payload)
  for _ = 1, tonumber(payload) or 0 do
    kept[#kept + 1] = tostring(2 ^ 40 + #kept):rep(79)
  end
end

for number = 1, 32 do
  nk.register_rpc(function(context, payload)
    keep(payload)
    return "ok"
  end, "fill" .. number)
  nk.register_rpc(function(context, payload)
    nk.storage_write({ { collection = "spent", key = "key", user_id = context.user_id, value = {} } })
    keep(payload)
    return "ok"
  end, "save" .. number)
end
