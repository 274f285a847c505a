-- Makes and signals the matches of waiting_match.lua, or of another module: what they are to do stands in the
-- request.
local nk = require("nakama")

nk.register_rpc(function(_, payload)
  local wishes = nk.json_decode(payload)
  return nk.json_encode({ match_id = nk.match_create(wishes.module or "waiting_match", wishes) })
end, "waiting_create")

nk.register_rpc(function(_, payload)
  local wish = nk.json_decode(payload)
  return nk.json_encode({ answer = nk.match_signal(wish.match_id, nk.json_encode(wish.data)) })
end, "waiting_signal")
