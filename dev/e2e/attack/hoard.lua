-- Functions that wait for another server, and what they hold meanwhile.
local nk = require("nakama")

-- Holds so many bytes while it waits, no two calls the same.
nk.register_rpc(function(context, payload)
  local asked = nk.json_decode(payload)
  local held = ("x"):rep(asked.bytes) .. context.user_id .. asked.url
  nk.http_request(asked.url, "get", {}, nil, 30000)
  return tostring(#held)
end, "hoard")

-- Takes all memory that is left.
nk.register_rpc(function()
  local taken = {}
  while true do taken[#taken + 1] = {} end
end, "take")
