-- A script whose author trusts his clients with addresses: it asks whom they name.
local nk = require("nakama")

local function ask(_, payload)
  local asked = nk.json_decode(payload)
  local ok, code, headers, content =
    pcall(nk.http_request, asked.url, asked.method or "GET", asked.headers, asked.content, asked.timeout_ms, asked.insecure)
  if not ok then
    return nk.json_encode({ error = tostring(code) })
  end
  return nk.json_encode({ code = code, headers = headers, content = content })
end

nk.register_rpc(ask, "e2e_http")

-- The same without a net: what it raises is the caller's.
nk.register_rpc(function(_, payload)
  local code = nk.http_request(nk.json_decode(payload).url, "get")
  return tostring(code)
end, "e2e_http_raw")

-- Before somebody takes an id away and names a place, that place is asked.
nk.register_req_before(function(_, request)
  local url = request.vars and request.vars.ask
  if url then
    local code = nk.http_request(url, "get", {})
    if code ~= 200 then error("the place says no") end
  end
  return request
end, "UnlinkCustom")
