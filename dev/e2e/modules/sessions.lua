-- What the attacks on sessions ask of a script: tokens with an end of their own, log-outs in masses, who calls.
local nk = require("nakama")

-- A token that outlives those of a login.
local function token(_, payload)
  local p = nk.json_decode(payload)
  return (nk.authenticate_token_generate(p.user_id, "somebody", p.exp))
end

-- Logs out as many users as one call may; says how many, and why not more.
local function log_outs(_, payload)
  local wanted, done = nk.json_decode(payload).count, 0
  local ok, why = pcall(function()
    for _ = 1, wanted do
      nk.session_logout(nk.uuid_v4())
      done = done + 1
    end
  end)
  return nk.json_encode({ done = done, why = not ok and tostring(why) or nil })
end

-- Closes as many sessions as one call may, as above.
local function disconnects(_, payload)
  local wanted, done = nk.json_decode(payload).count, 0
  local ok, why = pcall(function()
    for _ = 1, wanted do
      nk.session_disconnect(nk.uuid_v4())
      done = done + 1
    end
  end)
  return nk.json_encode({ done = done, why = not ok and tostring(why) or nil })
end

-- Writes much into the cache, and says how many bytes it got in.
local function cache(_, payload)
  local p, done = nk.json_decode(payload), 0
  local value = string.rep("x", p.bytes)
  local ok, why = pcall(function()
    for at = 1, p.count do
      nk.localcache_put("sessions" .. at, value, 60)
      done = done + 1
    end
  end)
  nk.localcache_clear()
  return nk.json_encode({ done = done, why = not ok and tostring(why) or nil })
end

local function client_ip(ctx)
  return ctx.client_ip
end

nk.register_rpc(token, "sessions_token")
nk.register_rpc(log_outs, "sessions_log_outs")
nk.register_rpc(disconnects, "sessions_disconnects")
nk.register_rpc(cache, "sessions_cache")
nk.register_rpc(client_ip, "sessions_client_ip")
