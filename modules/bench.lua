-- Finds a match with a free seat, or creates one: the first half of the match benchmark.
-- The match itself is bench_match.lua.

local nk = require("nakama")

local PLAYERS_MAX = 10

local function bench_find_match(context, payload)
  -- limit, authoritative, label, least size, greatest size, query: all six must be given.
  local matches = nk.match_list(1, true, nil, nil, PLAYERS_MAX - 1, "+label.mode:bench")
  local match_id
  if #matches > 0 then
    match_id = matches[1].match_id
  else
    match_id = nk.match_create("bench_match", { players_max = PLAYERS_MAX })
  end
  return nk.json_encode({ match_id = match_id })
end

nk.register_rpc(bench_find_match, "bench_find_match")
