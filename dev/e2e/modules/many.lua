-- RPC functions that make many matches, for memory.test.mjs.

local nk = require("nakama")

nk.register_rpc(function(_, payload)
  for _ = 1, tonumber(payload) do
    nk.match_create("empty_match", {})
  end
end, "many_empty_matches")
