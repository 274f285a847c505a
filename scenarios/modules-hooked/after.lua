-- An after-hook that does nothing: what it costs a registration that there is one.

local nk = require("nakama")

nk.register_req_after(function(context, session, request) end, "AuthenticateDevice")
