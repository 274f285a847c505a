-- Hooks of every kind.
local nk = require("nakama")
local log = { before = 0; after = 0 }
local function limit_name(context, payload)
  log.before = log.before + 1
  if payload.display_name and #payload.display_name > 20 then error({ "name too long", 3 }) end
  return payload
end
nk.register_req_before(limit_name, "UpdateAccount")
nk.register_req_after(function(context, output, input) log.after = log.after + 1 end, "AuthenticateDevice")
nk.register_rt_before(function(context, envelope) return envelope end, "ChannelJoin")
nk.register_rt_after(function(context, out, envelope) end, "MatchCreate")
nk.register_matchmaker_matched(function(context, matched_users)
  for _, user in ipairs(matched_users) do
    local presence, properties = user.presence, user.properties
    if properties.mode == "solo" then return nil end
    nk.logger_info(("Matched user '%s' named '%s'"):format(presence.user_id, presence.username))
  end
  return nk.match_create("lobby", { invited = matched_users })
end)
if nk.run_once then nk.run_once(function(context) log.once = context.execution_mode end) end
nk.register_rpc(function() local ok, e = pcall(limit_name, {}, { display_name = ("x"):rep(21) }) assert(not ok and e[2] == 3) return "ok" end, "hooks")
