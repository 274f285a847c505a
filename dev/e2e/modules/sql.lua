-- A script whose author trusts his clients with SQL: it runs what they send.
local nk = require("nakama")

local function run(_, payload)
  local asked = nk.json_decode(payload)
  if asked.exec then
    return nk.json_encode({ count = nk.sql_exec(asked.exec, {}) })
  end
  local rows = nk.sql_query(asked.query, {})
  return nk.json_encode({ rows = #rows })
end

nk.register_rpc(run, "e2e_sql")
