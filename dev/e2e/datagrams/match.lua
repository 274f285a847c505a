--[[
The match of datagrams.test.mjs: sends to all what comes, with the opcode deciding whether it may be lost. Runs
unmodified on Nakama.
--]]
local OP_SURE = 2
local OP_LOSABLE = 13

return {
  match_init = function(_context, _params)
    return {}, 20, ""
  end,
  match_join_attempt = function(_context, _dispatcher, _tick, state)
    return state, true
  end,
  match_join = function(_context, _dispatcher, _tick, state)
    return state
  end,
  match_leave = function(_context, _dispatcher, _tick, state)
    return state
  end,
  match_loop = function(_context, dispatcher, _tick, state, messages)
    for _, message in ipairs(messages) do
      if message.op_code == OP_SURE then
        dispatcher.broadcast_message(OP_SURE, message.data, nil, message.sender)
      elseif message.op_code == OP_LOSABLE then
        dispatcher.broadcast_message(OP_LOSABLE, message.data, nil, message.sender, false)
      end
    end
    return state
  end,
  match_terminate = function(_context, _dispatcher, _tick, state)
    return state
  end,
  match_signal = function(_context, _dispatcher, _tick, state, data)
    return state, data
  end,
}
