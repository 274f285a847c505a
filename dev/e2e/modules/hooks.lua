--[[
Hooks that change, refuse or block a call, each only for the names that its test uses.
Runs unmodified on the original server and on throng.
--]]
local nk = require("nakama")

nk.register_req_before(function(_ctx, payload)
  if payload.username == "e2e-hook-blocked" then
    return nil
  end
  if payload.username == "e2e-hook-refused" then
    error({ "this name is refused", 7 })
  end
  if payload.account.id == "e2e-hook-renamed" then
    payload.account.id = "e2e-hook-new-name"
  end
  return payload
end, "AuthenticateCustom")

nk.register_rt_before(function(_ctx, envelope)
  local name = envelope.match_create.name
  if name == "e2e-hook-blocked" then
    return nil
  end
  if name == "e2e-hook-refused" then
    error({ "this match is refused", 7 })
  end
  return envelope
end, "MatchCreate")
