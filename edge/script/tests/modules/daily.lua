-- Rewards by the day.
local nk = require("nakama")
local DAY = 24 * 60 * 60
local function midnight(now)
  local t = os.date("!*t", now)
  return os.time({ year = t.year, month = t.month, day = t.day, hour = 0, min = 0, sec = 0 })
end
local function streak(last, now)
  local days = math.floor((midnight(now) - midnight(last)) / DAY)
  if days == 0 then return "claimed" elseif days == 1 then return "next" else return "reset" end
end
nk.register_rpc(function()
  local now = 1700000000
  assert(midnight(now) == 1699920000)
  assert(streak(now - 60, now) == "claimed" and streak(now - DAY, now) == "next" and streak(0, now) == "reset")
  assert(os.date("!%Y-%m-%d %H:%M:%S", now) == "2023-11-14 22:13:20")
  assert(os.difftime(now, now - 5) == 5 and type(os.clock()) == "number" and nk.time() > 1e12)
  local expires = nk.cron_next("0 0 * * *", now)
  assert(expires % DAY == 0 and expires > now)
  return "ok"
end, "daily")
