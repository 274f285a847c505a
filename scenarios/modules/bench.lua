-- Finds a match with a free seat, or creates one: the first half of the match benchmark.
-- The match itself is bench_match.lua.
--
-- The payload may be {"group": N}, the seats of a match; ten without it. Matches of different sizes
-- are kept apart by their label, so that two runs on one server do not mix.

local nk = require("nakama")

local GROUP_DEFAULT, GROUP_MAX = 10, 1000
local INVALID_ARGUMENT = 3

local function refuse(what)
  error({ what, INVALID_ARGUMENT })
end

local function group_of(payload)
  if payload == nil or payload == "" then
    return GROUP_DEFAULT
  end
  local is_json, wish = pcall(nk.json_decode, payload)
  if not is_json or type(wish) ~= "table" then
    refuse('the payload is not JSON of the form {"group":10}')
  end
  local group = wish.group
  if group == nil then
    return GROUP_DEFAULT
  end
  if type(group) ~= "number" or group < 1 or group > GROUP_MAX or group % 1 ~= 0 then
    refuse("group is a whole number from 1 to " .. GROUP_MAX)
  end
  return group
end

local function bench_find_match(context, payload)
  local group = group_of(payload)
  local query = string.format("+label.mode:bench%d", group)
  -- limit, authoritative, label, least size, greatest size, query; Nakama wants all six, even if nil.
  local matches = nk.match_list(1, true, nil, nil, group - 1, query)
  local match_id
  if #matches > 0 then
    match_id = matches[1].match_id
  else
    match_id = nk.match_create("bench_match", { players_max = group })
  end
  return nk.json_encode({ match_id = match_id })
end

nk.register_rpc(bench_find_match, "bench_find_match")

-- The same without looking for one: seats are handed out in order, so that thousands of players can
-- come at once. Two calls at the same time may give one seat twice; the match then refuses the second
-- player, who asks again. A match that has ended meanwhile is handed out all the same: for servers
-- that were started for the run.
local function bench_take_seat(context, payload)
  local group = group_of(payload)
  local key = string.format("bench_seats_%d", group)
  local seats = nk.localcache_get(key)
  if seats == nil or seats.left == 0 then
    seats = { match_id = nk.match_create("bench_match", { players_max = group }), left = group }
  end
  seats.left = seats.left - 1
  nk.localcache_put(key, seats, 0)
  return nk.json_encode({ match_id = seats.match_id })
end

nk.register_rpc(bench_take_seat, "bench_take_seat")
