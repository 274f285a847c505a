-- RPC functions that want too much of the server, for the attack tests.

local nk = require("nakama")

nk.register_rpc(function(_, payload)
  local params = nk.json_decode(payload)
  return nk.match_create("greedy_match", params)
end, "greedy_create")

nk.register_rpc(function(_, payload)
  return nk.match_signal(payload, "")
end, "greedy_signal")

nk.register_rpc(function()
  local made = 0
  local _, why = pcall(function()
    for _ = 1, 10000 do
      nk.match_create("greedy_match", {})
      made = made + 1
    end
  end)
  return nk.json_encode({ made = made, why = tostring(why) })
end, "greedy_matches")

nk.register_rpc(function()
  return tostring(#nk.json_decode("[" .. ("1,"):rep(14000000) .. "1]"))
end, "greedy_decode")

nk.register_rpc(function()
  for line = 1, 100000 do
    nk.logger_info("line " .. line .. " of a flood")
  end
end, "greedy_log")

nk.register_rpc(function()
  tostring = function()
    return "replaced"
  end
  nk.time = tostring
  string.rep = tostring
  table.concat = tostring
  package.loaded.nakama = {}
  return "done"
end, "greedy_globals")

nk.register_rpc(function()
  local same = require("nakama") == nk and type(nk.time()) == "number"
  return tostring(same) .. ("x"):rep(2) .. table.concat({ "a", "b" })
end, "greedy_look")
