-- Makes and signals the matches of waiting_match.lua: what they are to do stands in the request.
local nk = require("nakama")

nk.register_rpc(function(_, payload)
  return nk.json_encode({ match_id = nk.match_create("waiting_match", nk.json_decode(payload)) })
end, "waiting_create")

nk.register_rpc(function(_, payload)
  local wish = nk.json_decode(payload)
  return nk.json_encode({ answer = nk.match_signal(wish.match_id, nk.json_encode(wish.data)) })
end, "waiting_signal")
