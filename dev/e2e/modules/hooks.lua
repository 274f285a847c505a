--[[
Hooks that change, refuse or block a call, and that keep what they saw; each only for the names that its test
uses. Runs unmodified on Nakama and on throng.
--]]
local nk = require("nakama")

nk.register_req_before(function(_ctx, payload)
  if payload.username == "e2e-hook-blocked" then
    return nil
  end
  if payload.username == "e2e-hook-refused" then
    error({ "this name is refused", 7 })
  end
  if payload.username == "e2e-hook-broken" then
    return { account = "no account" }
  end
  -- Computes for as long as it is told.
  local compute_ms = payload.account.vars and tonumber(payload.account.vars.compute_ms)
  if compute_ms then
    local ends = nk.time() + compute_ms
    while nk.time() < ends do
    end
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
  if name == "e2e-hook-other" then
    return { cid = envelope.cid, match_create = { name = 5 } }
  end
  return envelope
end, "MatchCreate")

-- Keeps what a hook saw where its user finds it.
local function keep(ctx, key, seen)
  seen.mode, seen.username, seen.has_session = ctx.execution_mode, ctx.username, ctx.session_id ~= nil
  nk.storage_write({
    { collection = "e2e_hooks", key = key, user_id = ctx.user_id, value = seen, permission_read = 1 },
  })
end

nk.register_rpc(function(ctx, key)
  local objects = nk.storage_read({ { collection = "e2e_hooks", key = key, user_id = ctx.user_id } })
  return objects[1] and nk.json_encode(objects[1].value) or "null"
end, "e2e_hook_seen")

nk.register_req_after(function(ctx, out, request)
  if request.account.vars and request.account.vars.hooked then
    keep(ctx, "authenticate", { has_token = #out.token > 100, created = out.created, request = request })
  end
end, "AuthenticateCustom")

-- Calls without a request: the hook returns nothing, and is not asked to.
nk.register_req_before(function(ctx)
  if ctx.vars and ctx.vars.hooked == "refuse" then
    error({ "no account for you", 9 })
  end
end, "GetAccount")

nk.register_req_after(function(ctx, out, request)
  if ctx.vars and ctx.vars.hooked then
    keep(ctx, "account", { custom_id = out.custom_id, request_empty = next(request) == nil })
    error("nobody hears of this")
  end
end, "GetAccount")

nk.register_req_before(function(ctx, payload)
  if ctx.vars and ctx.vars.hooked then
    keep(ctx, "list", { payload = payload })
    payload.limit = 101
  end
  return payload
end, "ListMatches")

nk.register_rt_after(function(ctx, out, request)
  if ctx.vars and ctx.vars.hooked then
    keep(ctx, "match", { out = out, request = request })
  end
end, "MatchCreate")

nk.register_rt_after(function(ctx, out, request)
  if ctx.vars and ctx.vars.hooked then
    keep(ctx, "leave", { out = out, request = request })
  end
end, "MatchLeave")

-- Only what succeeded has an after-hook.
nk.register_rt_after(function(ctx, out, request)
  if ctx.vars and ctx.vars.hooked then
    keep(ctx, "join", { cid = request.cid, joined = out.match ~= nil })
  end
end, "MatchJoin")

nk.register_rt_before(function(_ctx, envelope)
  if envelope.match_data_send.op_code == "1007" then
    envelope.match_data_send.op_code = 1008
    envelope.match_data_send.data = nk.base64_encode("changed")
  end
  return envelope
end, "MatchDataSend")
