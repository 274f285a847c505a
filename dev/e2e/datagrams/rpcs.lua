-- What datagrams.test.mjs and its attack call. There is no hook of MatchDataSend here: with one there are no datagrams.
local nk = require("nakama")

nk.register_rpc(function(_context, _payload)
  return nk.json_encode({ match_id = nk.match_create("match", {}) })
end, "e2e_create_match")

nk.register_rpc(function(_context, payload)
  return payload
end, "e2e_echo")
