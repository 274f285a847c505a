--[[
RPCs that misbehave on purpose: without end, without bounds, or by swallowing the error that stops them.
Only called on throng, which promises to stop them; Nakama has no such limits. Loading is harmless.
--]]
local nk = require("nakama")

nk.register_rpc(function(_ctx, _payload)
  while true do
  end
end, "hostile_spin")

nk.register_rpc(function(_ctx, _payload)
  error("on purpose")
end, "hostile_fail")

nk.register_rpc(function(_ctx, _payload)
  while true do
    pcall(function()
      while true do
      end
    end)
  end
end, "hostile_spin_pcall")

nk.register_rpc(function(_ctx, _payload)
  local held = {}
  while true do
    held[#held + 1] = { #held }
  end
end, "hostile_hoard")

nk.register_rpc(function(_ctx, _payload)
  return tostring(#string.rep("x", 4000000000))
end, "hostile_rep")

nk.register_rpc(function(_ctx, _payload)
  local function down(n)
    return 1 + down(n + 1)
  end
  return tostring(down(0))
end, "hostile_recursion")

nk.register_rpc(function(_ctx, _payload)
  return tostring(string.find(string.rep("a", 100000), string.rep("a-", 30) .. "b"))
end, "hostile_pattern")

-- Asks a match again and again: the caller is blocked rather than busy.
nk.register_rpc(function(_ctx, payload)
  local p = nk.json_decode(payload)
  for _ = 1, p.times do
    nk.match_signal(p.match_id, "")
  end
  return "{}"
end, "hostile_signal")
