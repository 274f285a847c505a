-- The smallest remote procedure: answers with what it was sent.
--
--   curl "http://127.0.0.1:7350/v2/rpc/echo?http_key=defaulthttpkey&unwrap" -d 'hello'

local nk = require("nakama")

-- `context` tells who calls and how; `payload` is the request's text. Return text, or nothing.
local function echo(context, payload)
  return payload
end

nk.register_rpc(echo, "echo")

-- The same for JSON: taken apart, and put together again.
local function echo_json(context, payload)
  return nk.json_encode(nk.json_decode(payload))
end

nk.register_rpc(echo_json, "echo_json")
