--[[
One RPC for each function of streams, called "stream" with { op, ... }: what a test or an attacker asks for is
done as it stands. The session is the caller's unless another one is named.
--]]
local nk = require("nakama")

local ops = {}

function ops.join(p)
  return { is_new = nk.stream_user_join(p.user_id, p.session_id, p.stream, p.hidden, p.persistence, p.status) }
end

function ops.update(p)
  nk.stream_user_update(p.user_id, p.session_id, p.stream, p.hidden, p.persistence, p.status)
end

function ops.leave(p)
  nk.stream_user_leave(p.user_id, p.session_id, p.stream)
end

function ops.kick(p)
  nk.stream_user_kick(p.presence, p.stream)
end

function ops.get(p)
  return { found = nk.stream_user_get(p.user_id, p.session_id, p.stream) }
end

function ops.list(p)
  return { presences = nk.stream_user_list(p.stream, p.with_hidden, p.with_others) }
end

function ops.count(p)
  return { count = nk.stream_count(p.stream) }
end

function ops.close(p)
  nk.stream_close(p.stream)
end

function ops.send(p)
  nk.stream_send(p.stream, p.data, p.presences, p.reliable)
end

function ops.send_raw(p)
  nk.stream_send_raw(p.stream, p.envelope, p.presences, p.reliable)
end

-- Sends so often.
function ops.send_many(p)
  for _ = 1, p.count do
    nk.stream_send(p.stream, p.data)
  end
end

-- Joins so many streams, each with a name of its own, until one is refused.
function ops.join_many(p)
  for i = 1, p.count do
    local joined, text = pcall(nk.stream_user_join, p.user_id, p.session_id, { mode = 101, label = p.prefix .. i })
    if not joined then
      return { joined = i - 1, refused = tostring(text) }
    end
  end
  return { joined = p.count }
end

nk.register_rpc(function(context, payload)
  local p = nk.json_decode(payload)
  p.user_id = p.user_id or context.user_id
  p.session_id = p.session_id or context.session_id
  return nk.json_encode(ops[p.op](p) or {})
end, "stream")
